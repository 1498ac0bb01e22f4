--[[
  Sets a plain counter, or deletes it.

  KEYS[1]  the counter
  ARGV[1]  its points; '': it is deleted
  ARGV[2]  its lifetime, ms; 0: without end
  ARGV[3]  until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else now and how many keys were deleted.
]]
local timely = require 'redis.timely'

local key = KEYS[1]
local points = ARGV[1]
local lifetime = tonumber(ARGV[2])
local now = timely.now_ms('')
if timely.is_late(now) then return { now } end
if points == '' then return { now, redis.call('DEL', key) } end
if lifetime > 0 then
  redis.call('SET', key, points, 'PX', ARGV[2])
else
  redis.call('SET', key, points)
end
return { now, 0 }
