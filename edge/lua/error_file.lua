-- What nginx says of requests to applications is a file of its own: an application that resets each connection makes a line of each request,
-- with up to 2 KB of what its client has sent. This module empties it past its size, so that it neither fills the disk nor displaces what the
-- proxy says of itself, in the log of the process.
local ffi = require 'ffi'
local open_file = require 'open_file'

ffi.cdef [[
  int ftruncate(int file, long length);
  long lseek(int file, long offset, int whence);
]]

local END = 2 -- as Linux numbers it
local LOOK_SECONDS = 1

local M = {}

-- Called when a worker starts. Of its file nginx has given each worker the same open one, which root may have made.
function M.watch(folder, name, bytes)
  if ngx.worker.id() ~= 0 then return end
  local path = open_file.real_path(folder) .. '/' .. name
  local number
  local function look()
    if not number or open_file.path_behind(number) ~= path then number = open_file.find(path) end
    if number and ffi.C.lseek(number, 0, END) > bytes then ffi.C.ftruncate(number, 0) end
  end
  ngx.timer.at(0, look)
  ngx.timer.every(LOOK_SECONDS, look)
end

return M
