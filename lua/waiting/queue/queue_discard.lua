--[[
  Deletes dead letters for good.

  KEYS[1..10]  the queue: see queues.keys
  KEYS[11], ARGV[1..2]  see timely.run_once
  ARGV[3]      how many of the oldest to delete, when no ids are given
  ARGV[4…]     ids

  Returns how many were deleted
]]
local queues = require 'waiting.queue.queues'
local timely = require 'redis.timely'

local keys = queues.keys()
local count = tonumber(ARGV[3])
local named = {}
for i = 4, #ARGV do
  named[#named + 1] = ARGV[i]
end

-- If it is repeated after a lost answer, it must not delete letters that have died since.
return timely.run_once(function()
  local ids = #named > 0 and named or redis.call('ZRANGE', keys.dead, '0', count - 1)
  if #ids == 0 then return { 0 }, false end
  redis.call('HDEL', keys.graves, unpack(ids))
  local gone = redis.call('ZREM', keys.dead, unpack(ids))
  return { gone }, gone > 0
end)
