--[[ Ends a lease of a semaphore: that of this token; nil: whoever holds it. Returns 1, or 0 if there is none; and the member that held it. ]]
-- @include semaphore_fact
local function semaphore_end(s, id, token)
  local fact = redis.call('HGET', s.facts, id)
  local permits, member, stamp = semaphore_fact(fact)
  if not fact or (token and token ~= stamp) then return 0 end
  local ended = redis.call('ZREM', s.leases, id)
  redis.call('HDEL', s.facts, id)
  if ended == 1 then s.used = math.max(0, s.used - permits) end
  return ended, member
end
