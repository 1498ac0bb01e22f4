--[[
  Records a change made by the dashboard in its history: the newest 200, for 90 days.

  KEYS[1]  changes: LIST of the moment in ms, a space, and the change as JSON; newest first
  ARGV[1]  the change

  Returns the moment.
]]
local timely = require 'redis.timely'

local change = ARGV[1]
local now = timely.now_ms('')
redis.call('LPUSH', KEYS[1], string.format('%.0f %s', now, change))
redis.call('LTRIM', KEYS[1], 0, 199)
redis.call('PEXPIRE', KEYS[1], 7776000000)
return now
