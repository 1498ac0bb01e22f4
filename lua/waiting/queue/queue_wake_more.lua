--[[
  Wakes processes for messages that the caller cannot take; or checks that one came after the last wake-up, and wakes
  more if not.

  KEYS[1..11]  the queue: see queues.keys
  ARGV[1]      0 to wake; else how many to wake at once if none came, at most 64

  Returns 1 if processes were woken. 0 if one came, or none is idle: then the messages wake the next process that
  becomes idle
]]
local queues = require 'waiting.queue.queues'

local keys = queues.keys()
local more = math.min(64, tonumber(ARGV[1]))

if more > 0 then
  if redis.call('EXISTS', keys.called) == 0 or redis.call('EXISTS', keys.wake) == 1 then return 0 end
  local members = {}
  for i = 1, more do
    members[2 * i - 1] = '0'
    members[2 * i] = string.format('%d', i)
  end
  redis.call('ZADD', keys.wake, unpack(members))
end
queues.wake(keys)
return 1
