--[[
  Wakes two idle processes: the first asks at once, the second a little later, because the first may be stopped or busy. Members
  that no process pops stay for the next process that becomes idle, until their lifetime ends.
]]
local function queue_wake(keys)
  redis.call('ZADD', keys.wake, '0', 'first', '1', 'second')
  redis.call('PEXPIRE', keys.wake, '60000')
  redis.call('SET', keys.called, '1', 'PX', '60000')
end
