--[[ A row after at most `cost` units were given back, newest first: at, x, y; nothing where there is nothing to take from. ]]
-- @include window_start
-- @include bucket_level
-- @include roll_cells
local function refund_row(limit, now, cost, at, x, y)
  if not at then return end
  if limit.algorithm == 'fixed-window' then
    return window_start(limit.window, now, at), math.max(0, x - cost), 0
  end
  if limit.algorithm == 'sliding-counter' then
    local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
    local from_current = math.min(cost, current)
    return cell, current - from_current, math.max(0, previous - (cost - from_current))
  end
  return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), limit.quota
end
