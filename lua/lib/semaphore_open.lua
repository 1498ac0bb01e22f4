--[[
  Reads a semaphore, see semaphore_read, and takes away leases whose deadline has passed. The result keeps in `used` how many permits are
  out; nothing of it is written before semaphore_save.
]]
-- @include semaphore_read
-- @include semaphore_mend
-- @include semaphore_sweep
local function semaphore_open(keys, clock, initial, idle, floor, stored)
  local s = semaphore_read(keys, clock, initial, idle, floor, stored)
  if not s or s.err then return s end
  if clock == '' then semaphore_mend(s) end
  return semaphore_sweep(s)
end
