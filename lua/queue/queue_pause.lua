--[[
  Holds the deliveries of a delay queue, or lets them go on. A pause is a member before all others, so that to see it costs nothing.

  KEYS[1..9]  the queue: see queue_keys
  ARGV[1]     1 to hold, 0 to go on

  Returns nothing
]]
-- @include queue_keys
-- @include queue_wake_one
local keys = queue_keys()
local hold = ARGV[1] == '1'

if hold then
  redis.call('ZADD', keys.delayed, '-1', 'paused')
elseif redis.call('ZREM', keys.delayed, 'paused') == 1 then
  queue_wake_one(keys)
end
