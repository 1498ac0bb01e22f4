--[[ The step of that name as a function. Returns retry, remaining, reset, delay, then the next at, x and y. ]]
-- @include floor_div
-- @include ceil_div
local function bucket(limit, now, cost, at, x, y)
  local quota, window, burst, shaped = limit.quota, limit.window, limit.burst, limit.algorithm == 'leaky-bucket'
  local retry, remaining, reset, delay, next_at, next_x, next_y
  -- @include steps/bucket
  return retry, remaining, reset, delay, next_at, next_x, next_y
end
