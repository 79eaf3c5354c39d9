-- The access log is one file per hour of UTC. This module enforces its limits of age and size. The first half of what an hour may have is
-- there for any application, the second half for each up to a share, so that a flood of one leaves lines to the others; while one hour alone
-- exceeds the size, all lines are dropped so that the disk does not fill.
local hour_file = require 'hour_file'

local gsub = string.gsub

local M = {}

local full, crowded = false, false
local share = 0
-- Bytes of each application in the second half of the hour, '' = hosts that lead nowhere.
local hour, taken = '', {}

local SWEEP_SECONDS = 10
local LOOK_SECONDS = 1
-- Of an hour's bytes, in each nginx worker.
local SHARES = 32
-- A line without what client and application have chosen.
local LINE_BYTES = 500
local LOOK_BACK_HOURS = 24 * 400

local function size_of(path)
  local handle = io.open(path, 'r')
  if not handle then return nil end
  local bytes = handle:seek('end')
  handle:close()
  return bytes
end

-- Goes back `look_back` hours from now and removes the files beyond the limits.
local function sweep(hours, bytes, look_back)
  local now, total = ngx.time(), 0
  for back = 0, look_back do
    local path = hour_file.path_of(now - back * 3600)
    total = total + (size_of(path) or 0)
    if back > 0 and (back >= hours or total > bytes) then os.remove(path) end
  end
end

-- The length of a text in JSON, where a control byte becomes six and a quotation mark or a backslash two.
local function json_bytes(text)
  if not text then return 0 end
  local _, control = gsub(text, '%c', '%0')
  local _, quoted = gsub(text, '["\\]', '%0')
  return #text + 5 * control + quoted
end

-- A line with what client and application have chosen of it. Computed only in the second half: it would cost every request.
local function bytes_of(var)
  local bytes = LINE_BYTES + json_bytes(var.request_method) + json_bytes(var.host) + json_bytes(var.asked_path) + json_bytes(var.args)
  return bytes + json_bytes(var.http_referer) + json_bytes(var.http_user_agent) + json_bytes(var.sent_http_content_type)
end

-- Log phase, which Lua enters before the line is written. No earlier phase would do: what nginx refuses itself may have passed none.
-- `subject` is the application, or another name for all that has a share.
function M.leave(subject)
  if full or not hour_file.is_there() then
    ngx.var.log_wanted = '0'
  elseif crowded then
    local var = ngx.var
    local bytes = (taken[subject] or 0) + bytes_of(var)
    taken[subject] = bytes
    if bytes > share then var.log_wanted = '0' end
  end
end

-- Starts the watch of this nginx worker; the first worker also removes. `name` is the file in the proxy's folder that nginx was given.
function M.watch(folder, name, hours, bytes)
  hour_file.begin(folder, name)
  share = bytes / SHARES / ngx.worker.count()
  local function look()
    hour_file.check()
    local path = hour_file.path_of(ngx.time())
    local size = size_of(path) or 0
    full, crowded = size >= bytes, size >= bytes / 2
    if path ~= hour then
      hour, taken = path, {}
    end
  end
  local function clean(premature, look_back)
    if not premature and ngx.worker.id() == 0 then sweep(hours, bytes, look_back or hours + 48) end
  end
  ngx.timer.at(0, look)
  ngx.timer.every(LOOK_SECONDS, look)
  ngx.timer.at(0, clean, LOOK_BACK_HOURS)
  ngx.timer.every(SWEEP_SECONDS, clean)
end

return M
