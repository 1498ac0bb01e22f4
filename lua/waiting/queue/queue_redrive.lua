--[[
  Puts dead letters back: ready at once, their attempts counted from 1, without their ttl. A letter whose id is in the
  queue again, or whose record has another version, stays where it is.

  KEYS[1..10]  the queue: see queues.keys
  KEYS[11], ARGV[1..2]  see timely.run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      for how long dead letters are kept, ms; -1 for good
  ARGV[5]      how many of the oldest to pass over, when no ids are given
  ARGV[6]      how many to bring back, when no ids are given
  ARGV[7…]     ids

  Returns how many came back, and how many were looked at (fewer than given if they are large)
]]
local queues = require 'waiting.queue.queues'
local timely = require 'redis.timely'

local keys = queues.keys()
local given = ARGV[3]
local dead_ttl = tonumber(ARGV[4])
local from = tonumber(ARGV[5])
local count = tonumber(ARGV[6])
local named = {}
for i = 7, #ARGV do
  named[#named + 1] = ARGV[i]
end

return timely.run_once(function()
  local clock = queues.clock(keys, given)
  local ids = named
  if #named == 0 then
    local oldest = queues.oldest_dead(clock.now, dead_ttl)
    ids = redis.call('ZRANGE', keys.dead, oldest, '+inf', 'BYSCORE', 'LIMIT', from, count)
  end
  if #ids == 0 then return { 0, 0 }, false end
  local stamp = queues.stamp(clock)
  local graves, looked = queues.texts(keys.graves, ids)
  local back = 0
  for i = 1, looked do
    local id, grave = ids[i], graves[i]
    local died = tonumber(redis.call('ZSCORE', keys.dead, id) or nil)
    local kept = grave and died and (dead_ttl < 0 or died > clock.now - dead_ttl)
    local text = kept and cmsgpack.unpack(grave)[3]
    if kept and queues.readable(text) and redis.call('HEXISTS', keys.messages, id) == 0 then
      local seq = string.format('%s%04d', stamp, i)
      local rest = string.sub(text, 38)
      local record = queues.record(text)
      local head = string.format('%s%s%d%015d', queues.VERSION, seq, record.priority, 0)
      redis.call('HSET', keys.messages, id, head .. rest)
      redis.call('ZADD', keys.delayed, queues.score(record.priority, clock.now), seq .. queues.UNTRIED .. id)
      redis.call('HDEL', keys.graves, id)
      redis.call('ZREM', keys.dead, id)
      back = back + 1
    end
  end
  if back > 0 then
    queues.save(keys, clock, false, true)
    queues.wake(keys)
  end
  return { back, looked }, back > 0
end)
