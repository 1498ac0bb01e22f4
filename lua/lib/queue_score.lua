--[[
  The place of a message that waits, as the text of a score: nine minus its priority, then its due moment. So those of one priority
  lie together in order of their due moments, and higher priorities come first. 2^44 ms: the year 2527.
]]
local QUEUE_BAND = 17592186044416
local function queue_score(priority, due)
  return string.format('%.0f', (9 - priority) * QUEUE_BAND + math.min(due, QUEUE_BAND - 1))
end
