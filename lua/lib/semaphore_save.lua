--[[
  Writes the changes of a semaphore, and sets the lifetimes of its keys: the leases live until the last of them ends, the configuration `idle` ms longer,
  if it has such a lifetime. `waits`: true if there are waiters.
]]
-- @include semaphore_write_config
-- @include semaphore_direct
-- @include semaphore_first_end
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
    semaphore_write_config(s)
    semaphore_direct(s)
    return
  end
  if s.is_direct or s.sender_told then
    -- Senders of direct takes are remembered for longer than a call can be repeated.
    s.latest = math.max(s.latest or 0, latest_end(), s.now + 80000)
    s.bare = true
  end
  local first = s.used ~= 0 and not waits and semaphore_first_end(s)
  s.calm = waits and 0 or first or s.now + 1000000000
  -- An empty key is deleted, and its lifetime with it.
  local needed = s.latest and s.latest + s.padding or 0
  local is_short = s.latest and (s.bare or s.life < needed)
  if is_short then
    -- A little longer than needed, so that the next asks need not renew it.
    s.life = math.max(s.life, needed + math.ceil((s.latest - s.now) / 4))
    redis.call('PEXPIRE', s.leases, s.life - s.now)
  end
  -- Leases without a fact may have left the key of facts empty, without a lifetime.
  if is_short or #s.facts_to_write > 0 then redis.call('PEXPIRE', s.facts, s.life - s.now) end
  semaphore_write_config(s)
  if not s.idle then return end
  local lives = s.used ~= 0 and math.max(0, s.life - s.now) or 0
  if waits then lives = math.max(lives, 60000) end
  redis.call('PEXPIRE', s.config, lives + s.idle)
end
