-- An nginx worker whose master was killed keeps listening, and the next proxy could not bind the port. This asks Linux to
-- end the worker gracefully in that case, after its requests in progress. A master that was killed before its worker could ask
-- is detected by another parent pid: the master loads this file first.
local ffi = require 'ffi'

ffi.cdef [[
  int prctl(int option, unsigned long argument, unsigned long, unsigned long, unsigned long);
  int getpid(void);
  int getppid(void);
  int kill(int pid, int sig);
]]

local PR_SET_PDEATHSIG, SIGQUIT = 1, 3
local master = ffi.C.getpid()

return function()
  ffi.C.prctl(PR_SET_PDEATHSIG, SIGQUIT, 0, 0, 0)
  if ffi.C.getppid() ~= master then ffi.C.kill(ffi.C.getpid(), SIGQUIT) end
end
