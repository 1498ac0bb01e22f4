--[[
  When `cost` units fit a sliding window behind `ahead` units that are spent before them, in ms: 0 now, -1 never. Units above the quota take
  whole windows. Never too long; too short only where costs differ and leave gaps.
]]
-- @include sliding_window
local function log_ahead(limit, now, ahead, cost, key, log)
  if cost > limit.quota then return -1 end
  local units = ahead + cost
  local windows = math.floor((units - 1) / limit.quota)
  local wait = sliding_window(limit, now, units - windows * limit.quota, key, log)
  return wait + windows * limit.window
end
