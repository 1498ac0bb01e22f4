--[[
  A pause that a partner has asked for, as all processes see it.

  KEYS[1]  the pause: a key that lives as long as it
  ARGV[1]  a pause that begins now, ms; 0: none. Of two pauses the one that ends later stays.

  Returns for how many ms more the partner is to be left alone.
]]
local pause = tonumber(ARGV[1])
local left = math.max(0, redis.call('PTTL', KEYS[1]))
if pause > left then
  redis.call('SET', KEYS[1], '', 'PX', string.format('%.0f', pause))
  return pause
end
return left
