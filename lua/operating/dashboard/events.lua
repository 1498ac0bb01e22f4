-- What has happened in the last day: outages, alerts, deploys.
local events = {}

-- Forgets events; of their chains those that end with them.
function events.forget(keys, members)
  for _, member in ipairs(members) do
    redis.call('ZREM', keys[1], member)
    redis.call('HDEL', keys[2], member)
    local id = string.match(member, '^%d+ (.*)$')
    if redis.call('HGET', keys[3], id) == member then redis.call('HDEL', keys[3], id) end
  end
end

--[[
  Adds what processes tell. Several tell of one event: it begins with the first and ends with the last of them.

  keys     events: ZSET "ms of its beginning id" → its end, ms
           facts: HASH the same → how many decisions it took part in, largest value, reason, with spaces between
           chains: HASH chain → its last event
  Each of the `count` events is eight values in ARGV from `first` on: chain; id; beginning and end, ms; for how long the
  last event of its chain goes on without being told, ms, or -1: it goes on until the chain has one with another id, and
  does not come again; how many decisions more; value; reason.
]]
function events.add(keys, first, count, now)
  local DAY, CHAINS_KEPT, MOST, AT_ONCE = 86400000, 2592000000, 1000, 64
  for i = 0, count - 1 do
    local at = first + 8 * i
    local chain, id, gap = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 4])
    local to = math.min(now, tonumber(ARGV[at + 3]))
    local from = math.min(to, tonumber(ARGV[at + 2]))
    local last = redis.call('HGET', keys[3], chain)
    local lasted = last and tonumber(redis.call('ZSCORE', keys[1], last) or -1)
    local member = string.format('%.0f %s', from, id)
    if last and string.match(last, '^%d+ (.*)$') == id then
      if gap < 0 then
        member = lasted >= 0 and last
      elseif lasted + gap >= from then
        member = last
      end
    end
    if member then
      if member ~= last then redis.call('HSET', keys[3], chain, member) end
      local known = tonumber(redis.call('ZSCORE', keys[1], member) or 0)
      redis.call('ZADD', keys[1], string.format('%.0f', math.max(known, to)), member)
      local facts = redis.call('HGET', keys[2], member) or '0 0 '
      local counted, value, reason = string.match(facts, '^(%S+) (%S+) (.*)$')
      redis.call('HSET', keys[2], member, string.format(
        '%.0f %s %s', counted + ARGV[at + 5], math.max(value, ARGV[at + 6]), reason ~= '' and reason or ARGV[at + 7]
      ))
    end
  end
  events.forget(keys, redis.call('ZRANGEBYSCORE', keys[1], '-inf', now - DAY, 'LIMIT', 0, AT_ONCE))
  local over = math.min(AT_ONCE, redis.call('ZCARD', keys[1]) - MOST)
  if over > 0 then events.forget(keys, redis.call('ZRANGE', keys[1], 0, over - 1)) end
  redis.call('PEXPIRE', keys[1], DAY)
  redis.call('PEXPIRE', keys[2], DAY)
  redis.call('PEXPIRE', keys[3], CHAINS_KEPT)
end

return events
