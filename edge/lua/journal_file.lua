-- The file of a table of the proxy, as methods of it: JSON lines, each one change. Later lines win, so a change is one short append. The
-- line break precedes each line: a line torn by a full disk then never corrupts the next one. The first line names the boot of the
-- machine, because what a table knows may be void after another one. A file that is behind the dictionary names no boot.
local write = require('private_file').write

-- What all tables note of themselves, by name.
local notes = ngx.shared.journals

local Journal = {}

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

function Journal:rewrite()
  local new, lines = self.file .. '.new', 0
  local ok, failure = write(new, 'w', function(add)
    add(boot_line())
    for _, key in ipairs(self.dict:get_keys(0)) do
      local value = self.dict:get(key)
      if value then
        add('\n' .. self.record(key, value))
        lines = lines + 1
      end
    end
  end)
  if not ok then
    os.remove(new) -- incomplete, on a full disk
    return nil, failure
  end
  local renamed, rename_failure = os.rename(new, self.file)
  if not renamed then return nil, rename_failure end
  notes:set(self.lines_note, lines)
  notes:set(self.compacted_note, lines)
  notes:delete(self.behind_note)
  return true
end

function Journal:append(line)
  if notes:get(self.behind_note) then return self:rewrite() end
  local ok, failure = write(self.file, 'a', function(add) add('\n' .. line) end)
  if not ok then return nil, failure end
  local lines = notes:incr(self.lines_note, 1, 0)
  -- The change is already stored; a failed rewrite is retried with the next change.
  if lines > 1000 + 2 * (notes:get(self.compacted_note) or 0) then self:rewrite() end
  return true
end

-- Marks the file as behind the dictionary, so that a proxy that starts from it knows. One byte in place needs no disk space.
function Journal:disown()
  if notes:get(self.behind_note) then return true end
  local handle = io.open(self.file, 'r+')
  if not handle then return false end
  local written = handle:write('#')
  if not handle:close() or not written then return false end
  notes:set(self.behind_note, true)
  return true
end

-- The file may be behind the dictionary: this is called regularly, and retries writing it.
function Journal:catch_up()
  if notes:get(self.behind_note) then self:exclusively(function() return self:rewrite() end) end
end

-- Reads the file when the proxy starts. After a reload the dictionary still exists and is newer than the file.
function Journal:load(path)
  self.file = path
  notes:add('run', kernel_id('uuid'))
  if #self.dict:get_keys(1) > 0 then return end
  local handle = io.open(path, 'r')
  if not handle then
    notes:set(self.behind_note, true) -- its first line is yet to be written
    return
  end
  local lines, current = 0, false
  for line in handle:lines() do
    if lines == 0 then current = line == boot_line() end
    local key, value = self.parse(line)
    if key then self:put(key, (value and not current) and self.stale(value) or value) end
    lines = lines + 1
  end
  handle:close()
  notes:set(self.lines_note, lines)
  -- The user of the master process must not own the file, so the first change rewrites it.
  if not current then notes:set(self.behind_note, true) end
end

return Journal
