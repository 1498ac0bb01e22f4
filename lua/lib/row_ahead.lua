--[[
  When `cost` units fit under a limit whose state is a row behind `ahead` units that are spent before them, in ms: 0 now, -1 never. Units
  above what fits at once take whole windows; a bucket goes on filling meanwhile. Never too long; too short only where costs differ and leave
  gaps. Behind others a leaky bucket grants whoever waits (`waits`) when it can leave at once, and a newcomer when nobody waits any more.
]]
-- @include floor_div
-- @include ceil_div
-- @include bucket_level
-- @include window_start
-- @include sliding_counter
local function row_ahead(limit, now, ahead, cost, at, x, y, waits)
  local quota, window, burst = limit.quota, limit.window, limit.burst
  local units = ahead + cost
  if limit.algorithm == 'fixed-window' then
    if cost > quota then return -1 end
    local start = window_start(window, now, at)
    local free = quota - (start and x or 0)
    if units <= free then return 0 end
    local over = start and start + window - now or window
    return over + floor_div(units - math.max(0, free) - 1, quota) * window
  end
  if limit.algorithm == 'sliding-counter' then
    if cost > quota then return -1 end
    local windows = floor_div(units - 1, quota)
    local wait = sliding_counter(limit, now, units - windows * quota, at, x, y)
    return wait + windows * window
  end
  if quota == 0 or cost > burst then return -1 end
  local level = bucket_level(limit, now, at, x)
  local over = math.max(0, level + (units - burst) * window)
  if limit.algorithm == 'leaky-bucket' and (waits or ahead > 0) then
    -- Each leaves when all before it have.
    local before = level + (waits and ahead or ahead - 1) * window
    if waits then return ceil_div(before, quota) end
    over = math.max(over, before)
  end
  return ceil_div(over, quota)
end
