--[[
  Reads a semaphore and takes away what is over: leases whose deadline has passed, and offers that nobody took, which go back to their
  place in the line. `keys` are, in this order:

    config   HASH permits, used (by leases and offers), last (the newest number given), idle (lifetime in ms where nothing is held)
    leases   ZSET id → deadline in ms
    facts    HASH id → "permits party number": of a lease the fencing token, of a waiter its place in the line
    line     ZSET id → place in the line
    offers   ZSET id → deadline in ms: permits put by for a waiter who has been told, until it takes them
    parties  ZSET of those who wait → until when they are believed to live, in ms. A party is "process/number".

  `initial` is set as permits where none are; -1: then there is no semaphore, and the result is nil; below that: −2 − permits, which hold
  whatever was set. `idle` below 0: as stored.
  The result keeps in `used` what is out; nothing of it is written before semaphore_save. `crowded` is true if
  somebody is in the line or has an offer, `left` if somebody may have left it.
]]
-- @include semaphore_fact
-- @include semaphore_sum
local function semaphore_open(keys, clock, initial, idle)
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local s = {
    micros = micros,
    now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
    padding = clock == '' and 1000 or 5000,
  }
  s.config, s.leases, s.facts, s.line, s.offers, s.parties = unpack(keys, 1, 6)
  s.stored = redis.call('HMGET', s.config, 'permits', 'used', 'last', 'idle')
  s.permits = tonumber(s.stored[1])
  if initial < -1 then
    s.permits = -2 - initial
  elseif not s.permits then
    if initial < 0 then return nil end
    s.permits = initial
  end
  s.used = tonumber(s.stored[2])
  s.last = tonumber(s.stored[3]) or 0
  s.idle = tonumber(s.stored[4])
  if idle >= 0 then s.idle = idle end

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
    redis.call('ZREM', s.leases, unpack(over))
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
