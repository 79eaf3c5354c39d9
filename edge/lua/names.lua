-- Custom host names: host name -> its members, which are host names of routes, and its use of https. Where an application runs stands in
-- its route alone, so nothing here changes with a start, a deploy or a boot.
local journal = require 'journal'

local NO_HSTS = '-'
local VALUE = '^(%a+) (%S+) (%S+)$'
local LINE = '^{"host":"([a-z0-9.-]+)","members":%[(.-)%],"https":"(%a+)"(.*)}$'
local USES = { off = true, redirect = true }

local function record(host, value)
  local https, hsts, members = value:match(VALUE)
  local last = hsts == NO_HSTS and '' or ',"hsts":' .. hsts
  return '{"host":"' .. host .. '","members":["' .. members:gsub(',', '","') .. '"],"https":"' .. https .. '"' .. last .. '}'
end

-- `"a","b"` as `a,b`; nil where one of them is no host name.
local function listed(text)
  local names = {}
  for part in (text .. ','):gmatch('([^,]*),') do
    local name = part:match('^"([a-z0-9.-]+)"$')
    if not name then return nil end
    names[#names + 1] = name
  end
  return table.concat(names, ',')
end

-- The allowed characters need no JSON escapes, so patterns are a whole parser here.
local function parse(line)
  local removed = line:match('^{"host":"([a-z0-9.-]+)","removed":true}$')
  if removed then return removed, nil end
  local host, text, https, rest = line:match(LINE)
  local members = host and listed(text)
  local hsts = rest == '' and NO_HSTS or (rest or ''):match('^,"hsts":(%d+)$')
  if not members or not USES[https] or not hsts then return nil, nil, 'malformed name: ' .. line:sub(1, 200) end
  return host, https .. ' ' .. hsts .. ' ' .. members
end

local M = { table = journal.new { name = 'names', parse = parse, record = record } }

-- Values that this worker has taken apart, while they are in use.
local apart = setmetatable({}, { __mode = 'v' })

local function take_apart(value)
  local https, hsts, list = value:match(VALUE)
  local members = {}
  for member in list:gmatch('[^,]+') do members[#members + 1] = member end
  return { members = members, https = https, hsts = tonumber(hsts) }
end

-- The `members` of a custom name, `https` ('off' or 'redirect') and `hsts` in seconds (nil = not sent); or nil. Not to be changed.
function M.find(host)
  local value = M.table.dict:get(host)
  if not value then return nil end
  local name = apart[value]
  if not name then
    name = take_apart(value)
    apart[value] = name
  end
  return name
end

return M
