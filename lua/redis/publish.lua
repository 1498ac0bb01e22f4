--[[
  Publishes a text on a channel. Writes nothing.

  KEYS     none
  ARGV[1]  channel
  ARGV[2]  text

  Returns  the number of receivers on this server.
]]
local channel = ARGV[1]
local text = ARGV[2]
return redis.call('PUBLISH', channel, text)
