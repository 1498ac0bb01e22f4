--[[
  A pause that a partner has requested, shared by all processes.

  KEYS[1]  the pause: a key that lives as long as it
  ARGV[1]  a pause that begins now, ms; 0: none. Of two pauses the one that ends later stays.

  Returns the remaining ms of the pause.
]]
local pause = tonumber(ARGV[1])
local left = math.max(0, redis.call('PTTL', KEYS[1]))
if pause > left then
  redis.call('SET', KEYS[1], '', 'PX', string.format('%.0f', pause))
  return pause
end
return left
