-- Files that nginx has open in this worker, whose numbers it tells nobody.
local ffi = require 'ffi'

ffi.cdef [[
  int open(const char *path, int flags, ...);
  int close(int file);
  long readlink(const char *path, char *text, size_t length);
]]

local READ = 0 -- as Linux numbers it
local FILES, PATH_BYTES = 16384, 4096 -- as many as a worker may open
local text = ffi.new('char[?]', PATH_BYTES)

local M = {}

-- The path of an open file, without links, and whether it has been removed since; an empty one where no file is open.
function M.path_behind(file)
  local length = tonumber(ffi.C.readlink('/proc/self/fd/' .. file, text, PATH_BYTES))
  local path = length > 0 and ffi.string(text, length) or ''
  local removed = path:match('^(.*) %(deleted%)$')
  return removed or path, removed ~= nil
end

-- A folder's path without links.
function M.real_path(path)
  local file = ffi.C.open(path, READ)
  local real = M.path_behind(file)
  ffi.C.close(file)
  return real
end

-- The number of an open file by its path without links; nil when it is not open.
function M.find(path)
  for file = 0, FILES do
    if M.path_behind(file) == path then return file end
  end
  ngx.log(ngx.ERR, 'nginx has not opened ', path)
end

return M
