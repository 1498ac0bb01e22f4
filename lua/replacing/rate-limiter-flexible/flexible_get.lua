--[[
  Reads a plain counter.

  KEYS[1]  the counter
  ARGV[1]  is not read

  Returns now, the points (nothing if there is no such key) and the ms that it still lives (-1: without end).
]]
local timely = require 'redis.timely'

return { timely.now_ms(''), redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]) }
