-- leaky-bucket: admitted requests wait until those before them have left, window / quota apart. Row: see buckets.lua.
local buckets = require 'limiter.buckets'
local leaky_bucket = {}

leaky_bucket.delays = true

--- As fixed_window.measure; `burst`: units. No compared value exceeds burst x window, which the policy keeps below
--- 2^53; a sum of both sides could.
function leaky_bucket.measure(quota, window, burst, now, cost, at, level, capacity)
  local retry, remaining, reset, delay, most, found = 0, 0, 0, 0, 0, 0
  local next_at, next_level, next_capacity = at, level, capacity
  if at and at > now then next_at = now end
  if quota > 0 then
    most, found = burst, level
    -- A refusal does not write the scaled level: it would be rounded up again and again.
    if at and capacity ~= burst * window then found = buckets.scaled(level, capacity, burst * window) end
    -- After the clock was set back, nothing is regained.
    if at and now > at then found = found - quota * (now - at) end
    if found < 0 then found = 0 end
  end
  local over = found - (most - cost) * window
  if cost > most then
    retry = -1
  elseif cost > 0 and over > 0 then
    -- As numbers.ceil_div(over, quota), without a call; so are the divisions below.
    retry = over / quota
    retry = retry - retry % 1
    if retry * quota > over then retry = retry - 1 end
    if retry * quota < over then retry = retry + 1 end
  elseif cost > 0 then
    -- It waits until the level before it has drained.
    delay = found / quota
    delay = delay - delay % 1
    if delay * quota > found then delay = delay - 1 end
    if delay * quota < found then delay = delay + 1 end
    found = found + cost * window
    next_at, next_level, next_capacity = now, found, burst * window
  end
  local left = most * window - found
  if left > 0 then
    remaining = left / window
    remaining = remaining - remaining % 1
    if remaining * window > left then remaining = remaining - 1 end
  end
  if quota > 0 and found > 0 then
    reset = found / quota
    reset = reset - reset % 1
    if reset * quota > found then reset = reset - 1 end
    if reset * quota < found then reset = reset + 1 end
  end
  return retry, remaining, reset, delay, next_at, next_level, next_capacity
end

return leaky_bucket
