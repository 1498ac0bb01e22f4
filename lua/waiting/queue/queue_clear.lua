--[[
  Empties a delay queue, dead letters too. Open deliveries become stale; a pause continues.

  KEYS[1..10]  the queue: see queues.keys
  KEYS[11], ARGV[1..2]  see timely.run_once
  ARGV[3]      now, ms; '' for the server's clock

  Returns nothing of use
]]
local queues = require 'waiting.queue.queues'
local timely = require 'redis.timely'

local keys = queues.keys()
local given = ARGV[3]

-- If it is repeated after a lost answer, it must not delete messages pushed since.
return timely.run_once(function()
  local now = queues.clock(keys, given).now
  local last = redis.call('ZRANGE', keys.unacked, '-1', '-1', 'WITHSCORES')
  local paused = redis.call('ZSCORE', keys.delayed, 'paused')
  -- Another thread of the server frees a large queue.
  redis.call('UNLINK', keys.clock, unpack(KEYS, 1, 8))
  if paused then redis.call('ZADD', keys.delayed, '-1', 'paused') end
  -- As long as a process may believe that its delivery is valid.
  if last[2] and tonumber(last[2]) > now then
    redis.call('SET', keys.cleared_mark, '1', 'PX', string.format('%.0f', tonumber(last[2]) - now))
  end
  return {}, true
end)
