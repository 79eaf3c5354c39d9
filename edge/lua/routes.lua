-- The routes of applications: host name -> application, address and port. Ports are allocated anew in each boot of the machine, so routes
-- of another boot are held (port 0) until they are set again.
local journal = require 'journal'

local HELD = '0'

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

local function hold(value)
  return (value:gsub('%d+$', HELD))
end

local M = { table = journal.new { name = 'routes', parse = parse, record = record, stale = hold } }

-- Returns application, address and port of a host, or nil. Port '0' = the application has no reachable port at present.
function M.find(host)
  local value = M.table.dict:get(host)
  if not value then return nil end
  return value:match('^(%S+) (%S+) (%d+)$')
end

return M
