--[[
  Forgets a process that ends. The sums to which it has added stay.

  KEYS[1…3]  see dashboard_report
  ARGV[1]    process

  Returns how many there were.
]]
local process = ARGV[1]
redis.call('HDEL', KEYS[2], process)
redis.call('HDEL', KEYS[3], process)
return redis.call('ZREM', KEYS[1], process)
