--[[ Takes away what is over of a semaphore that was read: see semaphore_open. ]]
-- @include semaphore_fact
-- @include semaphore_sum
local function semaphore_sweep(s)
  s.crowded = redis.call('EXISTS', s.line, s.offers) > 0
  local lease = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
  local offer = s.crowded and tonumber(redis.call('ZRANGE', s.offers, '0', '0', 'WITHSCORES')[2])
  if not lease and not offer then
    -- Here the sum mends itself, should a key have been lost.
    s.used = 0
    return s
  end
  if not s.used then
    s.used = semaphore_sum(s, redis.call('ZRANGE', s.leases, '0', '-1'))
      + semaphore_sum(s, redis.call('ZRANGE', s.offers, '0', '-1'))
  end
  while lease and lease <= s.now do
    local over = redis.call('ZRANGEBYSCORE', s.leases, '-inf', s.now, 'LIMIT', '0', SEMAPHORE_BATCH)
    if #over == 0 then break end
    s.used = s.used - semaphore_sum(s, over)
    -- They are the first, and cheaper to drop by rank than by name.
    redis.call('ZREMRANGEBYRANK', s.leases, '0', #over - 1)
    redis.call('HDEL', s.facts, unpack(over))
  end
  if offer and offer <= s.now then
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', s.offers, '-inf', s.now)) do
      local permits, party, place = semaphore_fact(redis.call('HGET', s.facts, id))
      s.used = s.used - permits
      redis.call('ZREM', s.offers, id)
      if party then
        redis.call('ZADD', s.line, place, id)
        redis.call('ZADD', s.parties, 'XX', s.now, party)
      end
    end
  end
  return s
end
