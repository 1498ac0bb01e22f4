--[[ For units spent behind `ahead` others: how many fall into the last of several windows, and the ms before it; nil: never. ]]
-- @include floor_div
local function whole_windows(limit, ahead, cost)
  if cost > limit.quota then return nil end
  local units = ahead + cost
  local windows = floor_div(units - 1, limit.quota)
  return units - windows * limit.quota, windows * limit.window
end
