--[[
  Gives a delayed message another due moment; wakes idle processes if it is now due before all that wait.

  KEYS[1..10]  the queue: see queues.keys
  KEYS[11], ARGV[1..2]  see timely.run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      id
  ARGV[5]      delay from now, ms

  Returns 1, or 0 if no such message is delayed
]]
local queues = require 'waiting.queue.queues'
local timely = require 'redis.timely'

local keys = queues.keys()
local given = ARGV[3]
local id = ARGV[4]
local delay = tonumber(ARGV[5])

return timely.run_once(function()
  local clock = queues.clock(keys, given)
  local now = clock.now
  local text = redis.call('HGET', keys.messages, id)
  if not text then return { 0 }, false end
  if queues.outlived(text, now) then return { 0 }, false end
  local record = queues.record(text)
  local member = record.seq .. (redis.call('HGET', keys.tries, id) or queues.UNTRIED) .. id
  local score = redis.call('ZSCORE', keys.delayed, member)
  if not score or tonumber(score) % queues.BAND <= now then return { 0 }, false end
  redis.call('ZADD', keys.delayed, queues.score(record.priority, now + delay), member)
  queues.save(keys, clock)
  local from = queues.score(record.priority, 0)
  local first = redis.call('ZRANGE', keys.delayed, from, '+inf', 'BYSCORE', 'LIMIT', '0', '1')
  if first[1] == member then queues.wake(keys) end
  return { 1 }, true
end)
