--[[ A row after `cost` units were spent, whether they fit or not (a debt): at, x, y. ]]
-- @include window_start
-- @include bucket_level
-- @include roll_cells
local function charge_row(limit, now, cost, at, x, y)
  if limit.algorithm == 'fixed-window' then
    local start = window_start(limit.window, now, at)
    return start or now, (start and x or 0) + cost, 0
  end
  if limit.algorithm == 'sliding-counter' then
    local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
    return cell, current + cost, previous
  end
  -- A debt without end would leave the exact integers.
  return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), limit.quota
end
