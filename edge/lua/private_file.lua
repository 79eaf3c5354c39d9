-- Files that Lua creates would be readable by everyone, and some hold private keys.
local ffi = require 'ffi'

ffi.cdef 'unsigned int umask(unsigned int mask);'

local OWNER_ONLY = 63 -- 0077

local M = {}

local function open(path, mode)
  local before = ffi.C.umask(OWNER_ONLY)
  local handle, failure = io.open(path, mode)
  ffi.C.umask(before)
  return handle, failure
end

-- Writes the pieces that `each` passes on, one after the other. Returns nil and a reason when not all of them could be written.
function M.write(path, mode, each)
  local handle, failure = open(path, mode)
  if not handle then return nil, failure end
  local written, write_failure = true, nil
  each(function(text)
    if written then written, write_failure = handle:write(text) end
  end)
  local closed, close_failure = handle:close()
  if written and closed then return true end
  return nil, write_failure or close_failure or 'write failed'
end

return M
