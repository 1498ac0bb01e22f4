--[[
  The section `measure` of token-bucket and leaky-bucket. Row: at = the moment of the level (nil: never used); x = the level, that is the units spent and
  not yet regained, times window, a whole number for every rate; y = the quota for which the lifetime of the key was computed. Under a lower quota the bucket
  regains more slowly, so even a refusal renews the lifetime, once. An admitted request of a leaky (`shaped`) bucket waits until the level before it has
  drained.
]]
-- At quota 0 nothing drains and nothing is allowed: the level does not matter until the quota changes.
local most, found = 0, 0
if quota > 0 then
  most = burst
  if at then
    found = x
    -- After the clock was set back, nothing is regained.
    if now > at then found = x - quota * (now - at) end
    if found < 0 then found = 0 end
  end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
  -- No compared value exceeds burst x window, which the policy keeps below 2^53; a sum of both sides could.
  local over = found - (most - cost) * window
  if cost > most then
    retry = -1
  elseif over > 0 then
    local units = over
    -- @include steps/drain_ms
    retry = drain_ms
  else
    after = found + cost * window
    next_at, next_x, next_y = now, after, quota
    if shaped then
      local units = found
      -- @include steps/drain_ms
      delay = drain_ms
    end
  end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
  -- As floor_div, but without a call.
  remaining = left / window
  remaining = remaining - remaining % 1
  if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
  local units = after
  -- @include steps/drain_ms
  reset = drain_ms
end
