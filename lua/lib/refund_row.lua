--[[ Takes at most `cost` units back out of a row, newest first. Returns false where there is nothing to take from. ]]
-- @include window_start
-- @include bucket_level
-- @include roll_cells
local function refund_row(limit, now, cost, row)
  if not row.at then return false end
  if limit.algorithm == 'fixed-window' then
    row.at = window_start(limit.window, now, row.at)
    row.x = math.max(0, row.x - cost)
    return row.at ~= nil
  end
  if limit.algorithm == 'sliding-counter' then
    row.at, row.x, row.y = roll_cells(limit.window, now, row.at, row.x, row.y)
    local from_current = math.min(cost, row.x)
    row.x = row.x - from_current
    row.y = math.max(0, row.y - (cost - from_current))
    return true
  end
  row.x = math.max(0, bucket_level(limit, now, row.at, row.x) - cost * limit.window)
  row.at = now
  return true
end
