--[[
  Removes the record of a process that ends. Its contributions to sums stay.

  KEYS[1…3]  see dashboard_report
  ARGV[1]    process

  Returns the number of removed records.
]]
local process = ARGV[1]
redis.call('HDEL', KEYS[2], process)
redis.call('HDEL', KEYS[3], process)
return redis.call('ZREM', KEYS[1], process)
