--[[ Removes the ended leases of a semaphore. `first` of the result is when the first of the others ends. ]]
-- @include semaphore_sum
-- @include semaphore_first_end
local function semaphore_sweep(s)
  local function first_end() return semaphore_first_end(s) end
  local first = s.used ~= 0 and first_end()
  if not first then
    -- The sum corrects itself here if a key was lost.
    s.used = 0
    return s
  end
  if not s.used then s.used = semaphore_sum(s, redis.call('ZRANGEBYSCORE', s.leases, '-inf', SEMAPHORE_ABOVE)) end
  while first and first <= s.now do
    local over = redis.call('ZRANGEBYSCORE', s.leases, '-inf', s.now, 'LIMIT', '0', SEMAPHORE_BATCH)
    s.used = math.max(0, s.used - semaphore_sum(s, over))
    -- Ended leases come first in the key, and removing by rank is cheaper than by name.
    redis.call('ZREMRANGEBYRANK', s.leases, '0', #over - 1)
    redis.call('HDEL', s.facts, unpack(over))
    s.freed = true
    first = first_end()
  end
  s.first = first or nil
  return s
end
