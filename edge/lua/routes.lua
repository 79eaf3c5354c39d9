-- The routes of applications: host name -> application, address, port, version and account. Ports are allocated anew in each boot of the machine,
-- so routes of another boot are held (port 0) until they are set again.
local journal = require 'journal'

local HELD = '0'
local UNVERSIONED = '*'
local VALUE = '^(%S+) (%S+) (%d+) (%S+) ?(%x*)$'
local REMOVAL = '^{"host":"([a-z0-9.-]+)","appId":"([%w_-]+)"'
local LINE = '^{"host":"([a-z0-9.-]+)","appId":"([%w_-]+)","address":"([%x.:]+)","port":(%d+)'

local function record(host, value)
  local app, address, port, version, account = value:match(VALUE)
  local last = version == UNVERSIONED and '' or ',"version":"' .. version .. '"'
  if account ~= '' then last = last .. ',"account":"' .. account .. '"' end
  return '{"host":"' .. host .. '","appId":"' .. app .. '","address":"' .. address .. '","port":' .. port .. last .. '}'
end

-- Whether a route is the one that a removal means: that of an application, at a port if it names one.
local function meant(app, port)
  return function(value)
    local present, _, at = value:match(VALUE)
    return present == app and (not port or port == at)
  end
end

-- The allowed characters need no JSON escapes, so patterns are a whole parser here. Lines of earlier proxies have no version or account.
local function parse(line)
  local host = line:match('^{"host":"([a-z0-9.-]+)","removed":true}$')
  if host then return host, nil end
  local from, of, at = line:match(REMOVAL .. ',"port":(%d+),"removed":true}$')
  if not from then from, of = line:match(REMOVAL .. ',"removed":true}$') end
  if from then return from, nil, nil, meant(of, at) end
  local start, account = line:match('^(.+),"account":"(%x+)"}$')
  local rest = start and start .. '}' or line
  local name, app, address, port, version = rest:match(LINE .. ',"version":"([%w_.-]+)"}$')
  if not name then name, app, address, port = rest:match(LINE .. '}$') end
  if not name then return nil, nil, 'malformed route: ' .. line:sub(1, 200) end
  return name, app .. ' ' .. address .. ' ' .. port .. ' ' .. (version or UNVERSIONED) .. (account and ' ' .. account or '')
end

local function hold(value)
  return (value:gsub('^(%S+ %S+) %d+', '%1 ' .. HELD))
end

local function take_apart(value)
  local app, address, port, version, account = value:match(VALUE)
  return {
    app = app,
    address = address,
    port = port,
    version = version ~= UNVERSIONED and version or nil,
    account = account ~= '' and account or app,
  }
end

local M = {
  HELD = HELD,
  table = journal.new { name = 'routes', parse = parse, record = record, take_apart = take_apart, stale = hold },
}

-- Returns application, address, port, version and account of a host, or nil. Port HELD = the application has no reachable port at present;
-- without a version nothing of it is cached. An application whose account is not known is one of its own.
function M.find(host)
  local route = M.table:find(host)
  if not route then return nil end
  return route.app, route.address, route.port, route.version, route.account
end

return M
