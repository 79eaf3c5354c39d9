-- An nginx worker whose master was killed keeps listening, and the next proxy could not bind the port. This asks Linux to
-- end the worker gracefully in that case, after its requests in progress. A master that was killed before its worker could ask
-- is detected by another parent pid: the master loads this file first.
local ffi = require 'ffi'

ffi.cdef [[
  int prctl(int option, unsigned long argument, unsigned long, unsigned long, unsigned long);
  int getpid(void);
  int getppid(void);
  int getpgrp(void);
  int kill(int pid, int sig);
]]

local PR_SET_PDEATHSIG, SIGQUIT = 1, 3
local master = ffi.C.getpid()

local M = {}

-- Called when a worker starts.
function M.begin()
  ffi.C.prctl(PR_SET_PDEATHSIG, SIGQUIT, 0, 0, 0)
  if ffi.C.getppid() ~= master then ffi.C.kill(ffi.C.getpid(), SIGQUIT) end
end

local function first_line(path)
  local handle = io.open(path, 'r')
  if not handle then return '' end
  local line = handle:read('*l')
  handle:close()
  return line or ''
end

-- Called when a worker ends. nginx runs no Lua in the processes that tend its caches, so they cannot ask for themselves: after a master was
-- killed its workers end them. They are then children of the process that all of them were left to.
function M.leave()
  local parent = ffi.C.getppid()
  if parent == master then return end
  for pid in first_line(('/proc/%d/task/%d/children'):format(parent, parent)):gmatch('%d+') do
    local group = first_line('/proc/' .. pid .. '/stat'):match('^%d+ %(nginx%) %a %d+ (%d+) ')
    local tends_caches = first_line('/proc/' .. pid .. '/cmdline'):find('^nginx: cache ')
    if tends_caches and tonumber(group) == ffi.C.getpgrp() then ffi.C.kill(tonumber(pid), SIGQUIT) end
  end
end

return M
