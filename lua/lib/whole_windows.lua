--[[ For a cost behind `ahead` units that takes several windows: returns the units that fall into the last of them, and the ms until it begins; nil if it never fits. ]]
-- @include floor_div
local function whole_windows(limit, ahead, cost)
  if cost > limit.quota then return nil end
  local units = ahead + cost
  local windows = floor_div(units - 1, limit.quota)
  return units - windows * limit.quota, windows * limit.window
end
