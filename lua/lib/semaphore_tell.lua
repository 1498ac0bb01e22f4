--[[
  Tells a party, "process/number", on the channel of its process: "number text". The text is the id for which permits are put by, '!'
  to look in 500 ms, '?' for leases to be looked at, or '*' for everything to be asked again.
]]
local function semaphore_tell(channel, party, text)
  local process, number = string.match(party, '^(.*)/(.*)$')
  local ear = channel .. process
  redis.call('PUBLISH', ear, number .. ' ' .. text)
end
