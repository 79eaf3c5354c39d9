-- Numbers in memory that all nginx workers share: one for each table, another one after each of its changes. Reading one takes no lock, so a
-- worker may hold what it has read of a table for as long as the number is the same.
local ffi = require 'ffi'

ffi.cdef 'void *mmap(void *address, size_t length, int protection, int flags, int file, long offset);'

local READ_AND_WRITE, SHARED_AND_ANONYMOUS, BYTES = 3, 33, 4096 -- as Linux numbers them
local notes = ngx.shared.journals

-- The memory is the master's, which has it in the next configuration too: workers of before are to see changes until they end.
local function memory()
  local address = notes:get('changes')
  if not address then
    address = tonumber(ffi.cast('intptr_t', ffi.C.mmap(nil, BYTES, READ_AND_WRITE, SHARED_AND_ANONYMOUS, -1, 0)))
    assert(address > 0, 'no memory is left')
    notes:set('changes', address)
  end
  return ffi.cast('volatile double *', address)
end

local numbers, count = memory(), 0

local M = {}

-- The number of the next table, in the first element. Tables are made in the same order in every configuration.
function M.number()
  count = count + 1
  return numbers + count
end

-- Says that a table has changed. Two workers never store the same number, whichever of them is the last.
function M.note(number)
  number[0] = notes:incr('change', 1, 0)
end

-- A worker that was killed between a change and its number has told no other: the one in its place does.
function M.begin()
  for n = 1, count do M.note(numbers + n) end
end

return M
