--[[
  Reports the state of a waiting line to the dashboard. Changes nothing.

  KEYS[1…3]  line, asks, meta: see lines.open
  ARGV       none

  Returns the number of waiters, 0 if no process with waiters seems to be alive; and how long the first has waited, ms.
]]
local lines = require 'waiting.line.lines'

local line = lines.open(KEYS[1], KEYS[2], KEYS[3], '')
if line.err or not lines.is_alive(line) then return { 0, 0 } end
local first = redis.call('ZRANGE', line.key, '0', '0', 'WITHSCORES')[2]
return { redis.call('ZCARD', line.key), first and math.max(0, math.floor((line.micros - tonumber(first)) / 1000)) or 0 }
