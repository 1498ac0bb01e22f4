--[[
  Reads a semaphore (see semaphore_read), and removes leases whose deadline has passed. Field `used` of the result is the number of held permits. Other
  changes of the result are written only by semaphore_save.
]]
-- @include semaphore_read
-- @include semaphore_repair_clock
-- @include semaphore_sweep
local function semaphore_open(keys, clock, initial, idle, floor, stored)
  local s = semaphore_read(keys, clock, initial, idle, floor, stored)
  if not s or s.err then return s end
  if clock == '' then semaphore_repair_clock(s) end
  return semaphore_sweep(s)
end
