-- When a request fits that has others before it in line.
local numbers = require 'limiter.numbers'
local ahead = {}

--- For `cost` units behind `units` others that take several windows: the units that fall into the last of them, and the
--- ms until it begins; nil if they never fit.
function ahead.in_windows(quota, window, units, cost)
  if cost > quota then return nil end
  local windows = numbers.floor_div(units + cost - 1, quota)
  return units + cost - windows * quota, windows * window
end

--- In how many ms `cost` units fit behind `units`, under a limit whose state is a row. 0: now; -1: never. Units above
--- what fits at once take whole windows. Never later than the true moment. `limit`: see limits.read. `waits`: the
--- request waits in line itself.
function ahead.of_row(limit, now, units, cost, at, count, other, waits)
  local quota, window, third = limit.quota, limit.window, limit.third
  if limit.algorithm == 'token_bucket' or limit.algorithm == 'leaky_bucket' then
    if quota == 0 or cost > third then return -1 end
    local buckets = require 'limiter.buckets'
    local level = buckets.level(limit, now, at, count, other)
    local is_leaky = limit.algorithm == 'leaky_bucket'
    if is_leaky and waits then return numbers.ceil_div(level + units * window, quota) end
    local over = math.max(0, level + (units + cost - third) * window)
    if is_leaky and units > 0 then over = math.max(over, level + (units - 1) * window) end
    return numbers.ceil_div(over, quota)
  end
  if limit.algorithm == 'sliding_counter' then
    local rest, wait = ahead.in_windows(quota, window, units, cost)
    if not rest then return -1 end
    local sliding_counter = require 'limiter.algorithms.sliding_counter'
    local retry = sliding_counter.measure(quota, window, nil, now, rest, at, count, other)
    return wait + retry
  end
  if cost > quota then return -1 end
  local fixed_window = require 'limiter.algorithms.fixed_window'
  local _, remaining, reset = fixed_window.measure(quota, window, third, now, 0, at, count)
  local over = units + cost - remaining
  if over <= 0 then return 0 end
  local windows = numbers.floor_div(over - 1, quota)
  -- Later windows of the calendar may be a tenth shorter than this one, as February is.
  if third then return third - now + window + numbers.floor_div(windows * window * 9, 10) end
  return (reset > 0 and reset or window) + windows * window
end

return ahead
