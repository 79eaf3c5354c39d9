-- Counts the open requests of each application across all nginx workers: one with slow visitors must not use up all connections.
-- Each worker counts its own and publishes the counts; those of a worker that died are removed when another gets its number.
local shown = ngx.shared.connections
local own = {}
local total = 0

local M = {}

local function key(app, worker)
  return worker .. ' ' .. app
end

local function show(app, count)
  own[app] = count > 0 and count or nil
  -- One worker knows them all. During a reload the next worker has the same number.
  if ngx.worker.count() == 1 or ngx.worker.exiting() then return end
  if count > 0 then shown:set(key(app, ngx.worker.id()), count) else shown:delete(key(app, ngx.worker.id())) end
end

local function open(app)
  local count = own[app] or 0
  local me = ngx.worker.id()
  for worker = 0, ngx.worker.count() - 1 do
    if worker ~= me then count = count + (shown:get(key(app, worker)) or 0) end
  end
  return count
end

-- Returns true and counts a request of the application, which must call `leave` later; or false, and whether the application itself is
-- full: all applications together must leave connections of this worker for the platform's own surfaces.
function M.enter(app, max, room)
  if open(app) >= max then return false, true end
  if total >= room then return false, false end
  total = total + 1
  show(app, (own[app] or 0) + 1)
  return true
end

-- The open requests of an application in this worker.
function M.count(app)
  return own[app] or 0
end

-- Counts a request that was admitted for one application as one of another, which answers in its place. The limit of that one is not
-- compared again: it gets what a member that failed has left.
function M.move(app, other)
  show(app, (own[app] or 1) - 1)
  show(other, (own[other] or 0) + 1)
end

function M.leave(app)
  total = total - 1
  show(app, (own[app] or 1) - 1)
end

-- Called when a worker starts.
function M.begin()
  math.randomseed(ngx.now() * 1000 + ngx.worker.pid()) -- workers would choose the same members
  local mine = '^' .. ngx.worker.id() .. ' '
  for _, name in ipairs(shown:get_keys(0)) do
    if name:find(mine) then shown:delete(name) end
  end
end

return M
