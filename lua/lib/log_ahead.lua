--[[ When `cost` units fit a sliding window behind `ahead` units, in ms: 0 now, -1 never. See functions_of. ]]
-- @include sliding_window
-- @include whole_windows
local function log_ahead(limit, now, ahead, cost, key, log)
  local units, wait = whole_windows(limit, ahead, cost)
  if not units then return -1 end
  return wait + sliding_window(limit, now, units, key, log)
end
