--[[
  Wakes two processes that sleep: the first asks at once, the second a little later, because the first may be stopped or busy. Members
  that find nobody asleep wait for whoever goes to sleep next. They have a lifetime because perhaps nobody ever does.
]]
local function queue_wake(keys)
  redis.call('ZADD', keys.wake, '0', 'first', '1', 'second')
  redis.call('PEXPIRE', keys.wake, '60000')
  redis.call('SET', keys.called, '1', 'PX', '60000')
end
