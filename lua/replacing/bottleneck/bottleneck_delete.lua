--[[
  Deletes the state of a limiter.

  KEYS[1..5]  see bottleneck_tick
  ARGV[1]     'tell': its clients without jobs forget it; '': they are not told

  Returns 1 if there was one, or 0.
]]
local tell = ARGV[1]
local found = redis.call('DEL', KEYS[1])
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
if tell == 'tell' then redis.call('PUBLISH', KEYS[5], 'deleted:') end
return found
