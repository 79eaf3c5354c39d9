-- Custom host names: host name -> its members, which are host names of routes. Where an application runs stands in its route alone, so
-- nothing here changes with a start, a deploy or a boot. After `@` a member names the application that its route must lead to: a subdomain
-- may be given to another account before its member is taken off. A member that ends in `!` is unhealthy, one that ends in `?` not
-- known to be healthy yet.
local journal = require 'journal'

local LINE = '^{"host":"([a-z0-9.-]+)","members":%[(.-)%]}$'

local function record(host, members)
  return '{"host":"' .. host .. '","members":["' .. members:gsub(',', '","') .. '"]}'
end

-- `"a@1","b"` as `a@1,b`; nil where one of them is no member.
local function listed(text)
  local names = {}
  for part in (text .. ','):gmatch('([^,]*),') do
    local name = part:match('^"([a-z0-9.-]+[!?]?)"$') or part:match('^"([a-z0-9.-]+@[%w_-]+[!?]?)"$')
    if not name then return nil end
    names[#names + 1] = name
  end
  return table.concat(names, ',')
end

-- The allowed characters need no JSON escapes, so patterns are a whole parser here.
local function parse(line)
  local removed = line:match('^{"host":"([a-z0-9.-]+)","removed":true}$')
  if removed then return removed, nil end
  local host, text = line:match(LINE)
  local members = host and listed(text)
  if not members then return nil, nil, 'malformed name: ' .. line:sub(1, 200) end
  return host, members
end

local function take_apart(value)
  local members, apps, marks = {}, {}, {}
  for member in value:gmatch('[^,]+') do
    local route, app, mark = member:match('^([^@!?]+)@?([^!?]*)([!?]?)$')
    members[#members + 1] = route
    if app ~= '' then apps[route] = app end
    if mark ~= '' then marks[route] = mark end
  end
  return { members = members, apps = apps, marks = marks }
end

local M = { table = journal.new { name = 'names', parse = parse, record = record, take_apart = take_apart } }

-- The `members` of a custom name, `apps` that they must be and `marks`, by member; or nil. Not to be changed.
function M.find(host)
  return M.table:find(host)
end

return M
