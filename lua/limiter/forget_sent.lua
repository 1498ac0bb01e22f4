--[[
  Forgets what a sender has sent: all of it has been answered, so that nothing comes again.

  KEYS[1]  what this sender has sent: see once
  ARGV     none

  Returns nothing
]]
redis.call('DEL', KEYS[1])
