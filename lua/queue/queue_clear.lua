--[[
  Empties a delay queue, dead letters too. Deliveries that are open become stale; a pause goes on.

  KEYS[1..10]  the queue: see queue_keys
  KEYS[11]     what this sender has sent: see once
  ARGV[1]      number of this request
  ARGV[2]      lowest number that is not answered
  ARGV[3]      now, ms; '' for the server's clock

  Returns nothing of use
]]
-- @include now_ms
-- @include once
-- @include queue_keys
local keys = queue_keys()
local sent = KEYS[11]
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local clock = ARGV[3]

-- Sent again after a lost answer, it must not delete what has been pushed since.
return once(sent, number, floor, function()
  local now = now_ms(clock)
  local last = redis.call('ZRANGE', keys.unacked, '-1', '-1', 'WITHSCORES')
  local paused = redis.call('ZSCORE', keys.delayed, 'paused')
  -- A thread of the server frees a large queue, not this call.
  redis.call('UNLINK', unpack(KEYS, 1, 9))
  if paused then redis.call('ZADD', keys.delayed, '-1', 'paused') end
  -- As long as a holder may believe that its delivery is its own.
  if last[2] and tonumber(last[2]) > now then
    redis.call('SET', keys.cleared, '1', 'PX', string.format('%.0f', tonumber(last[2]) - now))
  end
  return {}, true
end)
