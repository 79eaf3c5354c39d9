-- The access log is one file per hour of UTC. This module enforces its limits of age and size; while one hour alone exceeds
-- the size, lines are dropped so that the disk does not fill.
local M = {}

local full = false

local SWEEP_SECONDS = 10
local LOOK_BACK_HOURS = 24 * 400

local function path_of(folder, at)
  return folder .. '/access-' .. os.date('!%Y-%m-%dT%H', at) .. '.log'
end

local function size_of(path)
  local handle = io.open(path, 'r')
  if not handle then return nil end
  local bytes = handle:seek('end')
  handle:close()
  return bytes
end

-- Goes back `look_back` hours from now and removes the files beyond the limits.
local function sweep(folder, hours, bytes, look_back)
  local now, total = ngx.time(), 0
  for back = 0, look_back do
    local path = path_of(folder, now - back * 3600)
    total = total + (size_of(path) or 0)
    if back > 0 and (back >= hours or total > bytes) then os.remove(path) end
  end
end

-- Log phase, which Lua enters before the line is written. No earlier phase would do: what nginx refuses itself may have passed none.
function M.leave()
  if full then ngx.var.log_stopped = '1' end
end

-- Starts the watch of this nginx worker; the first worker also removes.
function M.watch(folder, hours, bytes)
  local function look(premature, look_back)
    if premature then return end
    full = (size_of(path_of(folder, ngx.time())) or 0) >= bytes
    if ngx.worker.id() == 0 then sweep(folder, hours, bytes, look_back or hours + 48) end
  end
  ngx.timer.at(0, look, LOOK_BACK_HOURS)
  ngx.timer.every(SWEEP_SECONDS, look)
end

return M
