--[[
  Writes what has changed of a semaphore, and gives its keys their lifetimes: leases until the last of them ends, and the configuration for
  `idle` ms more, if it has such a lifetime. `waits`: somebody is in the line.
]]
-- @include semaphore_put
-- @include semaphore_direct
-- @include semaphore_first
local function semaphore_save(s, waits)
  if #s.ids_to_drop > 0 then
    redis.call('ZREM', s.leases, unpack(s.ids_to_drop))
    redis.call('HDEL', s.facts, unpack(s.ids_to_drop))
  end
  if #s.facts_to_write > 0 then redis.call('HSET', s.facts, unpack(s.facts_to_write)) end
  if #s.deadlines_to_write > 0 then redis.call('ZADD', s.leases, unpack(s.deadlines_to_write)) end
  local function latest_end()
    return tonumber(redis.call('ZREVRANGEBYSCORE', s.leases, SEMAPHORE_ABOVE, '-inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]) or 0
  end
  if (s.is_direct or s.directs) and not waits and not s.idle and s.permits < 1e14 then
    s.calm, s.life = 0, 0
    if s.latest then redis.call('PEXPIRE', s.facts, latest_end() - s.now + s.padding) end
    semaphore_put(s)
    semaphore_direct(s)
    return
  end
  if s.is_direct or s.sender_told then
    -- Senders of direct takes are remembered for longer than a call can be repeated.
    s.latest = math.max(s.latest or 0, latest_end(), s.now + 80000)
    s.bare = true
  end
  local first = s.used ~= 0 and not waits and semaphore_first(s)
  s.calm = waits and 0 or first or s.now + 1000000000
  -- An empty key is deleted, and its lifetime with it.
  local needed = s.latest and s.latest + s.padding or 0
  local is_short = s.latest and (s.bare or s.life < needed)
  if is_short then
    -- A little more serves the next asks, too.
    s.life = math.max(s.life, needed + math.ceil((s.latest - s.now) / 4))
    redis.call('PEXPIRE', s.leases, s.life - s.now)
  end
  -- Leases without a fact may have left the key of facts empty, without a lifetime.
  if is_short or #s.facts_to_write > 0 then redis.call('PEXPIRE', s.facts, s.life - s.now) end
  semaphore_put(s)
  if not s.idle then return end
  local lives = s.used ~= 0 and math.max(0, s.life - s.now) or 0
  if waits then lives = math.max(lives, 60000) end
  redis.call('PEXPIRE', s.config, lives + s.idle)
end
