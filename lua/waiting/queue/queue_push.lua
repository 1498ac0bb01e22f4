--[[
  Puts messages into a delay queue, and wakes idle processes if one of the messages is due before all that wait.

  KEYS[1..10]  the queue: see queues.keys
  KEYS[11], ARGV[1..2]  see timely.run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      most messages that the queue holds; -1 without limit
  ARGV[5…]     for each message: id, delay in ms (-1: due at a moment), moment in ms, priority, ttl in ms (-1: none),
               most attempts (7 digits), what only the process reads

  Returns for each message 1, or 0 if its id is in the queue already or the queue is full
]]
local queues = require 'waiting.queue.queues'
local timely = require 'redis.timely'

local keys = queues.keys()
local given = ARGV[3]
local max_size = tonumber(ARGV[4])

local FIELDS = 7
local count = (#ARGV - 4) / FIELDS

local function push()
  local clock = queues.clock(keys, given)
  local now = clock.now
  local stamp = queues.stamp(clock)
  local ids = {}
  for i = 1, count do
    ids[i] = ARGV[(i - 1) * FIELDS + 5]
  end
  local known = redis.call('HMGET', keys.messages, unpack(ids))

  local room = math.huge
  if max_size >= 0 then
    room = max_size - redis.call('HLEN', keys.messages)
    if room < count then
      queues.purge(keys, now, 200)
      room = max_size - redis.call('HLEN', keys.messages)
    end
  end

  local reply, seen = {}, {}
  local records, places, ttls, first = {}, {}, {}, {}
  for i, id in ipairs(ids) do
    local at = (i - 1) * FIELDS + 5
    local text = known[i]
    if text and not seen[id] and queues.outlived(text, now) then
      -- A message whose ttl has passed is no longer in the queue, even if no delivery has dropped it yet.
      if redis.call('HEXISTS', keys.messages, id) == 0 then
        text = false
      elseif queues.drop(keys, id, text) then
        text = false
        room = room + 1
      end
    end
    if text or seen[id] or room < 1 then
      reply[i] = 0
    else
      seen[id] = true
      room = room - 1
      reply[i] = 1
      local delay = tonumber(ARGV[at + 1])
      local due = delay >= 0 and now + delay or math.max(now, tonumber(ARGV[at + 2]) + clock.ahead_ms)
      local priority = tonumber(ARGV[at + 3])
      local ttl = tonumber(ARGV[at + 4])
      -- The record has fifteen digits for this moment; a later one means never.
      local gone = ttl >= 0 and math.min(now + ttl, 999999999999999) or 0
      local seq = string.format('%s%04d', stamp, i)
      records[#records + 1] = id
      records[#records + 1] = string.format('%s%s%d%015.0f%s', queues.VERSION, seq, priority, gone, ARGV[at + 5])
        .. ARGV[at + 6]
      places[#places + 1] = queues.score(priority, due)
      places[#places + 1] = seq .. queues.UNTRIED .. id
      if gone > 0 then
        ttls[#ttls + 1] = string.format('%.0f', gone)
        ttls[#ttls + 1] = id
      end
      if not first[priority] or due < first[priority] then first[priority] = due end
    end
  end
  if #records == 0 then
    queues.save(keys, clock, true)
    return reply, false
  end

  -- Idle processes know the first waiting message, and learn of later ones when they fetch it.
  local news = false
  for priority, due in pairs(first) do
    local score = queues.score(priority, due)
    local before = redis.call('ZRANGE', keys.delayed, queues.score(priority, 0), score, 'BYSCORE', 'LIMIT', '0', '1')
    if #before == 0 then news = true end
  end
  redis.call('HSET', keys.messages, unpack(records))
  redis.call('ZADD', keys.delayed, unpack(places))
  if #ttls > 0 then redis.call('ZADD', keys.ttls, unpack(ttls)) end
  queues.save(keys, clock, false, true)
  if news then queues.wake(keys) end
  return reply, true
end

return timely.run_once(push)
