--[[
  Writes what has changed of a semaphore, and gives its keys their lifetimes: leases until the last of them ends, and the configuration for
  `idle` ms more, if it has such a lifetime. `waits`: somebody is in the line.
]]
-- @include semaphore_put
local function semaphore_save(s, waits)
  if #s.ids_to_drop > 0 then
    redis.call('ZREM', s.leases, unpack(s.ids_to_drop))
    redis.call('HDEL', s.facts, unpack(s.ids_to_drop))
  end
  if #s.facts_to_write > 0 then
    redis.call('HSET', s.facts, unpack(s.facts_to_write))
    redis.call('ZADD', s.leases, unpack(s.deadlines_to_write))
  end
  local first = s.used ~= 0 and not waits and tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
  s.calm = waits and 0 or first or s.now + 1000000000
  -- Keys that were empty had gone, and with them their lifetime.
  local needed = s.latest and s.latest + s.padding or 0
  if s.latest and (s.bare or s.life < needed) then
    -- A little more of it serves those who come next.
    s.life = math.max(s.life, needed + math.ceil((s.latest - s.now) / 4))
    redis.call('PEXPIRE', s.leases, s.life - s.now)
    redis.call('PEXPIRE', s.facts, s.life - s.now)
  end
  semaphore_put(s)
  if not s.idle then return end
  local lives = s.used ~= 0 and math.max(0, s.life - s.now) or 0
  if waits then lives = math.max(lives, 60000) end
  redis.call('PEXPIRE', s.config, lives + s.idle)
end
