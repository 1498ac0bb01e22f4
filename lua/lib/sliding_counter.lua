--[[ The step of that name as a function. Returns retry, remaining, reset, delay, then the next at, x and y. ]]
-- @include roll_cells
-- @include floor_div
-- @include ceil_div
local function sliding_counter(limit, now, cost, at, x, y)
  local quota, window = limit.quota, limit.window
  local retry, remaining, reset, delay, next_at, next_x, next_y
  -- @include steps/sliding_counter
  return retry, remaining, reset, delay, next_at, next_x, next_y
end
