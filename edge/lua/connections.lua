-- How many requests each application has open, over all nginx workers: one with slow visitors may not take the connections of all.
-- Each worker counts its own and shows them to the others; what a worker that died has shown goes when another takes its number.
local shown = ngx.shared.connections
local own = {}
local total = 0

local M = {}

local function key(app, worker)
  return worker .. ' ' .. app
end

local function show(app, count)
  own[app] = count > 0 and count or nil
  -- While nginx is reloaded, the worker that follows has the same number.
  if ngx.worker.exiting() then return end
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

-- True when there was room for one more request of the application, which is to be left then. Otherwise false, and whether it is the
-- application that is full: many of them together may not take the connections of this worker from the platform's own surfaces either.
function M.enter(app, most, room)
  if open(app) >= most then return false, true end
  if total >= room then return false, false end
  total = total + 1
  show(app, (own[app] or 0) + 1)
  return true
end

function M.leave(app)
  total = total - 1
  show(app, (own[app] or 1) - 1)
end

-- When a worker starts.
function M.begin()
  local mine = '^' .. ngx.worker.id() .. ' '
  for _, name in ipairs(shown:get_keys(0)) do
    if name:find(mine) then shown:delete(name) end
  end
end

return M
