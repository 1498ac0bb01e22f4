--[[
  Forgets keys.

  KEYS     what to forget
  ARGV     none

  Returns how many there were.
]]
return redis.call('UNLINK', unpack(KEYS))
