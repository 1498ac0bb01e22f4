--[[
  Lists blocked keys for the dashboard. Changes nothing.

  KEYS     block lists: see block
  ARGV[1]  how many of each list to return, those whose blocks end last first

  Returns for each list its members and the end of each block, ms.
]]
local timely = require 'redis.timely'

local most = tonumber(ARGV[1])
local after = '(' .. timely.now_ms('')
local reply = {}
for i, list in ipairs(KEYS) do
  reply[i] = redis.call('ZREVRANGEBYSCORE', list, '+inf', after, 'WITHSCORES', 'LIMIT', '0', most)
end
return reply
