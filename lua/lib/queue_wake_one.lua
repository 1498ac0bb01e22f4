--[[
  Wakes one of those who sleep, or the next who would go to sleep. It has a lifetime because perhaps nobody ever does.
]]
local function queue_wake_one(keys)
  redis.call('ZADD', keys.wake, '0', '1')
  redis.call('PEXPIRE', keys.wake, '60000')
end
