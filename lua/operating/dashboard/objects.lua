--[[
  Writes records of objects into the index: see index_note. Their ids and facts are in ARGV from `first` on. Records
  that were not renewed for `life` ms are removed, a few at a time, so that no call takes long. `told`: the facts come
  from a reporter, which knows more ("per") than the objects themselves: then records of the objects do not overwrite
  them.
]]
local function index_put(keys, first, now, life, most, told)
  local noted, facts, state = keys[1], keys[2], keys[3]
  local changed = false
  for i = first, #ARGV, 2 do
    local known = redis.call('HGET', facts, ARGV[i])
    if known ~= ARGV[i + 1] and (told or not known or not string.find(known, '"per":', 1, true)) then
      redis.call('HSET', facts, ARGV[i], ARGV[i + 1])
      changed = true
    end
    redis.call('ZADD', noted, now, ARGV[i])
  end
  local gone = redis.call('ZRANGEBYSCORE', noted, '-inf', now - life, 'LIMIT', 0, 32)
  local over = redis.call('ZCARD', noted) - #gone - most
  if over > 0 then
    for _, id in ipairs(redis.call('ZRANGE', noted, #gone, #gone + math.min(over, 32) - 1)) do
      gone[#gone + 1] = id
    end
  end
  if #gone > 0 then
    redis.call('ZREM', noted, unpack(gone))
    redis.call('HDEL', facts, unpack(gone))
    changed = true
  end
  if changed then redis.call('HINCRBY', state, 'version', 1) end
  for i = 1, 3 do
    redis.call('PEXPIRE', keys[i], life + 60000)
  end
end

--[[
  Records in the index which objects exist, so that the dashboard finds them without scanning keys; but only in a Redis
  whose dashboard somebody has opened.

  KEYS[1]  noted: ZSET id → last recorded, ms
  KEYS[2]  facts: HASH id → its description, as JSON
  KEYS[3]  state: HASH version (rises when facts change)
  KEYS[4]  the secret of dashboards: see dashboard_read
  ARGV[1]  how long a record lasts, ms
  ARGV[2]  most records; the oldest are removed first
  ARGV[…]  id and facts of each object

  Returns 1 if they were recorded, 0 if nobody has a dashboard.
]]
function index_note()
  local life = tonumber(ARGV[1])
  local most = tonumber(ARGV[2])
  if redis.call('EXISTS', KEYS[4]) == 0 then return 0 end
  index_put(KEYS, 3, now_ms(''), life, most, false)
  return 1
end

--[[
  Reports the state of a waiting line to the dashboard. Changes nothing.

  KEYS[1…3]  line, asks, meta: see line_open
  ARGV       none

  Returns the number of waiters, 0 if no process with waiters seems to be alive; and how long the first has waited, ms.
]]
function dashboard_line()
  local line = line_open(KEYS[1], KEYS[2], KEYS[3], '')
  if line.err or not line_alive(line) then return { 0, 0 } end
  local first = redis.call('ZRANGE', line.key, '0', '0', 'WITHSCORES')[2]
  return { redis.call('ZCARD', line.key), first and math.max(0, math.floor((line.micros - tonumber(first)) / 1000)) or 0 }
end

--[[
  Whether a delay queue is paused. Changes nothing.

  KEYS[1]  delayed: see queue_keys
  ARGV     none

  Returns 1 or 0.
]]
function dashboard_paused()
  return redis.call('ZSCORE', KEYS[1], 'paused') and 1 or 0
end

--[[
  Counts the dead letters of delay queues, for the dashboard. Changes nothing.

  KEYS  their dead letters: see queue_keys
  ARGV  none

  Returns a number for each.
]]
function dashboard_dead()
  local reply = {}
  for i, dead in ipairs(KEYS) do
    reply[i] = redis.call('ZCARD', dead)
  end
  return reply
end

--[[
  Lists blocked keys for the dashboard. Changes nothing.

  KEYS     block lists: see block
  ARGV[1]  how many of each list to return, those whose blocks end last first

  Returns for each list its members and the end of each block, ms.
]]
function dashboard_blocks()
  local most = tonumber(ARGV[1])
  local after = '(' .. now_ms('')
  local reply = {}
  for i, list in ipairs(KEYS) do
    reply[i] = redis.call('ZREVRANGEBYSCORE', list, '+inf', after, 'WITHSCORES', 'LIMIT', '0', most)
  end
  return reply
end

--[[
  Reads the ends of one key's blocks under some limits, for the dashboard. Changes nothing.

  KEYS  block lists of the limits: see block
  ARGV  the key's member in each of them

  Returns the end of each, ms; 0 if there is no block.
]]
function dashboard_blocked()
  local ends = {}
  for i, list in ipairs(KEYS) do
    ends[i] = block_end(list, ARGV[i])
  end
  return ends
end
