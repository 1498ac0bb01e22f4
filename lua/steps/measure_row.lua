--[[ The section `measure` of an algorithm as a function. ]]
local function measure(limit, now, cost, at, x, y)
  local quota, window, burst = limit.quota, limit.window, limit.burst
  local retry, remaining, reset, delay, next_at, next_x, next_y
  -- @here
  return retry, remaining, reset, delay, next_at, next_x, next_y
end
