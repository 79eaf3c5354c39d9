-- An nginx worker whose master was killed goes on listening, and the next proxy could not bind the port. Linux is asked
-- to end the worker in that case, gracefully: requests under way are finished.
local ffi = require 'ffi'

ffi.cdef [[
  int prctl(int option, unsigned long argument, unsigned long, unsigned long, unsigned long);
]]

local PR_SET_PDEATHSIG, SIGQUIT = 1, 3

return function()
  ffi.C.prctl(PR_SET_PDEATHSIG, SIGQUIT, 0, 0, 0)
end
