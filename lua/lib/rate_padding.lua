--[[
  How much longer than it counts the state of a rate is kept, ms. Never more than an interval, so that what a dead client leaves
  is gone within two. A given clock may stand still while the server's does not.
]]
local function rate_padding(clock, interval)
  if clock ~= '' then return 5000 end
  return math.min(interval, 1000)
end
