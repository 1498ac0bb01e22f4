--[[ Spends `cost` units of a row whether they fit or not: a debt. ]]
-- @include window_start
-- @include bucket_level
-- @include roll_cells
local function charge_row(limit, now, cost, row)
  if limit.algorithm == 'fixed-window' then
    local start = window_start(limit.window, now, row.at)
    row.at, row.x = start or now, (start and row.x or 0) + cost
  elseif limit.algorithm == 'sliding-counter' then
    local cell, current, previous = roll_cells(limit.window, now, row.at, row.x, row.y)
    row.at, row.x, row.y = cell, current + cost, previous
  else
    -- A debt without end would leave the exact integers.
    row.x = math.min(bucket_level(limit, now, row.at, row.x) + cost * limit.window, 9007199254740991)
    row.at = now
  end
end
