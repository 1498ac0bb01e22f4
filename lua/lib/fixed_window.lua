--[[ The step of that name as a function. Returns retry, remaining, reset, delay, then the next at, x and y. ]]
local function fixed_window(limit, now, cost, at, x)
  local quota, window = limit.quota, limit.window
  local retry, remaining, reset, delay, next_at, next_x, next_y
  -- @include steps/fixed_window
  return retry, remaining, reset, delay, next_at, next_x, next_y
end
