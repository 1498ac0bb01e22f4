--[[
  Returns the score of a waiting message, as text: nine minus its priority, then its due moment. So messages of one priority are together, in the order
  of their due moments, and higher priorities come first. 2^44 ms: the year 2527.
]]
local QUEUE_BAND = 17592186044416
local function queue_score(priority, due)
  return string.format('%.0f', (9 - priority) * QUEUE_BAND + math.min(due, QUEUE_BAND - 1))
end
