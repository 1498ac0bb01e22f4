--[[
  Notes that a process holds leases without a fact, so that it can be told when one of them is ended or taken over by others: see semaphore_direct. `member` is the process's
  "process/number", perhaps with more after a dot. Drops notes that are older than any such lease can be.
]]
local function semaphore_note_holder(leases, member, micros)
  local is_new = redis.call('ZADD', leases, string.format('%.0f', micros), '&' .. string.match(member, '^[^.]+'))
  if is_new == 1 then redis.call('ZREMRANGEBYSCORE', leases, '100000000000000', string.format('%.0f', micros - 80000000)) end
end
