-- The file of an hour of UTC. nginx writes its access log to one file of a fixed name, and each worker puts the file of the hour in its place:
-- a name with the hour in it would be looked up for each line.
local ffi = require 'ffi'
local open_file = require 'open_file'

ffi.cdef [[
  int dup2(int file, int number);
]]

-- As Linux numbers it: appending to a file that is made where it is missing, with the mode 0644.
local APPEND, MODE = 525377, ffi.new('int', 420)
local floor = math.floor
local path_behind = open_file.path_behind

local M = {}

-- The folder of the files, the file that nginx was given, and the number under which this worker has it open.
local folder, placeholder, number
-- The hour whose file is there, and the path that Linux shows for it.
local hour, shown

-- The file of the hour of a time.
function M.path_of(at)
  return folder .. '/access-' .. os.date('!%Y-%m-%dT%H', at) .. '.log'
end

-- Puts the file of an hour in place; false when there is none, as on a full disk.
local function turn_to(now)
  -- Of a worker that has long written nothing nginx may have opened its own file again, under another number.
  local behind = number and path_behind(number)
  if behind ~= shown and behind ~= placeholder then number = open_file.find(placeholder) end
  if not number then return false end
  local file = ffi.C.open(M.path_of(now * 3600), APPEND, MODE)
  if file < 0 then return false end
  ffi.C.dup2(file, number)
  ffi.C.close(file)
  hour, shown = now, path_behind(number)
  return true
end

-- Log phase, before the line is written: whether it will be in the file of this hour.
function M.is_there()
  local now = floor(ngx.time() / 3600)
  return now == hour or turn_to(now)
end

-- The next line opens the file of the hour again where somebody has removed it, or has had nginx open its own again.
function M.check()
  if not number then number = open_file.find(placeholder) end
  if not hour then return end
  local path, removed = path_behind(number)
  if path ~= shown then number = open_file.find(placeholder) end
  if removed or path ~= shown then hour = nil end
end

-- Called when a worker starts: the proxy's folder, and the name of the file in it that nginx was given.
function M.begin(of, name)
  folder, placeholder = of .. '/access', open_file.real_path(of) .. '/' .. name
  number = open_file.find(placeholder)
end

return M
