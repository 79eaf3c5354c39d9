-- Which application answers for a host name: that of its route, or one of the members of a custom name. Of two random members the one
-- with fewer open requests in this worker is chosen: shares stay equal, and a slow member gets less. Where neither is ready, it is the
-- lightest of all.
local connections = require 'connections'
local names = require 'names'
local routes = require 'routes'
local settings = require 'settings'

local random = math.random
local resting = ngx.shared.connections

local M = {}

local REST_SECONDS = 2
local HELD = routes.HELD
-- Added to a member's load, and more than any load: one that has not passed a check yet is chosen only without one that is ready, one whose
-- checks fail only without both, and one that rests only without these, for an unhealthy program still answers and a dead one delays a
-- visitor. One whose route is held, or that is closed for maintenance, is chosen only without any of these, and never for a second try.
local RESTS, IS_AWAY = 1e8, 1e9
local IS_UNKNOWN = 1e6
local MARKED = { ['?'] = IS_UNKNOWN, ['!'] = 1e7 }

local function key_of(address, port)
  return 'rest ' .. address .. ' ' .. port
end

-- Keeps requests of custom names away from an address whose connection failed, as long as other members answer.
function M.rest(address, port)
  resting:set(key_of(address, port), true, REST_SECONDS)
end

-- The load of a member is its open requests; nil where it has no route, that of another application, or was tried for this request.
local function load_of(name, member, tried)
  if tried and tried[member] then return nil end
  local wanted = name.apps[member]
  local app, address, port = routes.find(member)
  if not app or wanted and wanted ~= app then return nil end
  if port == HELD or settings.is_closed(member, app) then return not tried and IS_AWAY or nil end
  local rest = resting:get(key_of(address, port)) and RESTS or 0
  return connections.count(app) + rest + (MARKED[name.marks[member]] or 0)
end

-- The lightest of `count` members from `first` on, with its load. Of equals each is as likely: the first one would get the shares of
-- those before it that are not ready.
local function lightest(name, first, step, count, tried)
  local members, best, least, equals = name.members, nil, nil, 0
  for turn = 0, count - 1 do
    local member = members[(first - 1 + turn * step) % #members + 1]
    local load = load_of(name, member, tried)
    if load and (not least or load < least) then
      best, least, equals = member, load, 1
    elseif load and load == least then
      equals = equals + 1
      if random(equals) == 1 then best = member end
    end
  end
  return best, least
end

-- The host name of the route that answers for `host`, or nil when there is none; never one of `tried`, a set of members.
function M.choose(host, tried)
  if routes.find(host) then return not (tried and tried[host]) and host or nil end
  local name = names.find(host)
  if not name then return nil end
  local count = #name.members
  if count > 2 then
    local best, load = lightest(name, random(count), random(count - 1), 2, tried)
    if best and load < IS_UNKNOWN then return best end
  end
  return (lightest(name, 1, 1, count, tried))
end

return M
