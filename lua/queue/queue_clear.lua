--[[
  Empties a delay queue, dead letters too. Deliveries that are open become stale; a pause goes on.

  KEYS[1..9]  the queue: see queue_keys
  ARGV[1]     now, ms; '' for the server's clock

  Returns nothing
]]
-- @include now_ms
-- @include queue_keys
local keys = queue_keys()
local clock = ARGV[1]

local now = now_ms(clock)
local last = redis.call('ZRANGE', keys.unacked, '-1', '-1', 'WITHSCORES')
local paused = redis.call('ZSCORE', keys.delayed, 'paused')
-- A large queue is given back by a thread of the server, not by this call.
redis.call('UNLINK', unpack(KEYS, 1, 8))
if paused then redis.call('ZADD', keys.delayed, '-1', 'paused') end
-- As long as a holder may believe that its delivery is its own.
if last[2] and tonumber(last[2]) > now then
  redis.call('SET', keys.cleared, '1', 'PX', string.format('%.0f', tonumber(last[2]) - now))
end
