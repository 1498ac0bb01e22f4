--[[
  Deletes the record of a sender's requests: all have been answered, so that none is repeated.

  KEYS[1]  the requests of this sender: see run_once
  ARGV     none

  Returns nothing
]]
redis.call('DEL', KEYS[1])
