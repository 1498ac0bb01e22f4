--[[
  Lists the newest changes of live limits.

  KEYS[1]  log of all, or of one name: see LiveKeys
  ARGV[1]  how many at most

  Returns the changes, newest first
]]
local log = KEYS[1]
local count = tonumber(ARGV[1])
return redis.call('LRANGE', log, 0, count - 1)
