-- The routes of applications: a shared dictionary that every nginx worker reads, and a file of JSON lines that outlives
-- the proxy. Each line is one change; later lines win, so a change is one short append. The line break precedes each line:
-- a line torn by a full disk then never corrupts the next one. The first line names the boot of the machine: ports are
-- allocated anew in each, so routes of another boot are held (port 0) until they are set again. A change that cannot be written
-- is still valid in the dictionary, and the file then names no boot. The mark says up to which change of the database the dictionary
-- is complete; it belongs to one run of the proxy and is not in the file, since a proxy that starts knows only what its file says.
local dict = ngx.shared.routes
local meta = ngx.shared.routes_meta

local M = {}
local file
local HELD = '0'

local function kernel_id(name)
  local handle = io.open('/proc/sys/kernel/random/' .. name, 'r')
  if not handle then return 'unknown' end
  local id = handle:read('*l')
  handle:close()
  return id or 'unknown'
end

local function boot_line()
  return '{"boot":"' .. kernel_id('boot_id') .. '"}'
end

local function record(host, value)
  local app, address, port = value:match('^(%S+) (%S+) (%d+)$')
  return '{"host":"' .. host .. '","appId":"' .. app .. '","address":"' .. address .. '","port":' .. port .. '}'
end

-- The allowed characters need no JSON escapes, so patterns are a whole parser here.
local function parse(line)
  local host = line:match('^{"host":"([a-z0-9.-]+)","removed":true}$')
  if host then return host, nil end
  local name, app, address, port =
    line:match('^{"host":"([a-z0-9.-]+)","appId":"([%w_-]+)","address":"([%x.:]+)","port":(%d+)}$')
  if not name then return nil, nil, 'malformed route: ' .. line:sub(1, 200) end
  return name, app .. ' ' .. address .. ' ' .. port
end

local function write(path, mode, text)
  local handle, failure = io.open(path, mode)
  if not handle then return nil, failure end
  local written, write_failure = handle:write(text)
  local closed, close_failure = handle:close()
  if written and closed then return true end
  return nil, write_failure or close_failure or 'write failed'
end

local function rewrite()
  local lines = { boot_line() }
  for _, host in ipairs(dict:get_keys(0)) do
    local value = dict:get(host)
    if value then lines[#lines + 1] = record(host, value) end
  end
  local ok, failure = write(file .. '.new', 'w', table.concat(lines, '\n'))
  if not ok then
    os.remove(file .. '.new') -- incomplete, on a full disk
    return nil, failure
  end
  local renamed, rename_failure = os.rename(file .. '.new', file)
  if not renamed then return nil, rename_failure end
  meta:set('lines', #lines - 1)
  meta:set('kept', #lines - 1)
  meta:delete('other_boot')
  return true
end

local function append(line)
  if meta:get('other_boot') then return rewrite() end
  local ok, failure = write(file, 'a', '\n' .. line)
  if not ok then return nil, failure end
  local lines = meta:incr('lines', 1, 0)
  -- The change is already stored; a failed rewrite is retried with the next change.
  if lines > 1000 + 2 * (meta:get('kept') or 0) then rewrite() end
  return true
end

-- Marks the file as behind the dictionary, so that a proxy that starts from it holds its routes. One byte in place needs no disk space.
local function disown()
  if meta:get('other_boot') then return true end
  local handle = io.open(file, 'r+')
  if not handle then return false end
  local written = handle:write('#')
  if not handle:close() or not written then return false end
  meta:set('other_boot', true)
  return true
end

-- Permits one change at a time across all nginx workers, so that file and dictionary agree. `work` never yields; the expiry
-- of the lock is for a worker that was killed while it held it.
local function exclusively(work)
  while not meta:add('lock', true, 5) do ngx.sleep(0.001) end
  local ran, ok, failure = pcall(work)
  meta:delete('lock')
  if not ran then return nil, ok end
  return ok, failure
end

local function put(host, value)
  if value == nil then
    dict:delete(host)
    return true
  end
  return dict:safe_set(host, value)
end

-- Returns application, address and port of a host, or nil. Port '0' = the application has no reachable port at present.
function M.find(host)
  local value = dict:get(host)
  if not value then return nil end
  return value:match('^(%S+) (%S+) (%d+)$')
end

-- Applies one line; returns nil and a reason when it is malformed or could not be stored.
function M.change(line)
  local host, value, failure = parse(line)
  if not host then return nil, failure end
  return exclusively(function()
    local old = dict:get(host)
    if old == value then return true end
    local ok, reason = put(host, value)
    if not ok then return nil, reason end
    ok, reason = append(line)
    if ok or disown() then return true end
    put(host, old)
    return nil, reason
  end)
end

-- Makes the table equal to the lines of `text`.
function M.replace(text)
  local wanted = {}
  for line in text:gmatch('[^\n]+') do
    local host, value, failure = parse(line)
    if failure then return nil, failure end
    wanted[host] = value
  end
  return exclusively(function()
    meta:delete('mark')
    for _, host in ipairs(dict:get_keys(0)) do
      if not wanted[host] then dict:delete(host) end
    end
    for host, value in pairs(wanted) do
      if dict:get(host) ~= value then
        local ok, failure = put(host, value)
        if not ok then return nil, failure end
      end
    end
    local ok, failure = rewrite()
    if ok or disown() then return true end
    return nil, failure
  end)
end

-- The file may be behind the dictionary: this is called regularly, and retries writing it.
local function catch_up()
  if meta:get('other_boot') then exclusively(rewrite) end
end

local function records(hosts)
  local lines = {}
  for _, host in ipairs(hosts) do
    local value = dict:get(host)
    if value then lines[#lines + 1] = record(host, value) end
  end
  return table.concat(lines, '\n')
end

-- The whole table as JSON lines, or only the given hosts, separated by commas.
function M.list(names)
  if not names then
    catch_up()
    return records(dict:get_keys(0))
  end
  local hosts = {}
  for host in names:gmatch('[^,]+') do hosts[#hosts + 1] = host end
  return records(hosts)
end

-- This run of the proxy, and its mark if it has one.
function M.standing()
  catch_up()
  local mark = meta:get('mark')
  return '{"run":"' .. meta:get('run') .. '","mark":' .. (mark and '"' .. mark .. '"' or 'null') .. '}'
end

-- Stores the mark of this run. A mark of another run succeeds without effect: its writer has seen a table that this run may not have.
function M.mark(text)
  local run, mark = text:match('^([%x-]+) ([%w./: -]+)$')
  if not run then return nil, 'malformed mark: ' .. text:sub(1, 200) end
  if run == meta:get('run') then meta:set('mark', mark) end
  return true
end

local function held(value, same)
  if not value or same then return value end
  return (value:gsub('%d+$', HELD))
end

-- Reads the file when the proxy starts. After a reload the dictionary still exists and is newer than the file.
function M.load(path)
  file = path
  meta:add('run', kernel_id('uuid'))
  if #dict:get_keys(1) > 0 then return end
  local handle = io.open(path, 'r')
  if not handle then return end
  local lines = 0
  local same = false
  for line in handle:lines() do
    if lines == 0 then same = line == boot_line() end
    local host, value = parse(line)
    if host then put(host, held(value, same)) end
    lines = lines + 1
  end
  handle:close()
  meta:set('lines', lines)
  -- The user of the master process must not own the file, so the first change rewrites it.
  if not same then meta:set('other_boot', true) end
end

return M
