--[[
  Records that a process holds leases without a fact, so that it can be notified when another process ends one of them or takes it over: see
  semaphore_sweep. `member` is its "process/number", with the number of the member in the line after a dot. If the process is new, records that are older than any such
  lease can be are removed.
]]
local function semaphore_note_holder(leases, member, micros)
  local is_new = redis.call('ZADD', leases, string.format('%.0f', micros), '&' .. string.match(member, '^[^.]+'))
  if is_new == 1 then redis.call('ZREMRANGEBYSCORE', leases, '100000000000000', string.format('%.0f', micros - 80000000)) end
end
