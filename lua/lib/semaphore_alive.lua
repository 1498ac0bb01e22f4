--[[
  A party that waits is heard of. Gives the longest it may be silent, in ms: the more parties wait, the longer, so that together they
  cost a few calls a second, however many they are. Of two signs of life one may come late.
]]
local function semaphore_alive(s, party)
  local waiting = redis.call('ZCARD', s.parties)
  local pause = math.min(5000, math.max(900, 600 * waiting))
  redis.call('ZADD', s.parties, s.now + pause * 2.5, party)
  return pause
end
