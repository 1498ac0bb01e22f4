--[[
  The section `measure` of token-bucket and leaky-bucket. Row: at = the moment of the level (nil: never used); x = the level, that is the units spent and
  not yet regained, times window, a whole number for every rate; y = burst times window of the limit under which the level is counted (0: only limits of quota 0
  have written it). Under another limit the level is scaled, so that a limit that is changed under its name keeps the share that is left. A refusal does
  not write the scaled level: it would be rounded up again and again. At quota 0 nothing drains, and the level stays as it is until the quota is raised.
  An admitted request of a leaky (`shaped`) bucket waits until the level before it has drained. Uses functions_of.
]]
local most, found = 0, x
if quota > 0 then
  most = burst
  if at and y ~= burst * window then found = functions_of(algorithm).scaled(x, y, burst * window) end
  -- After the clock was set back, nothing is regained.
  if at and now > at then found = found - quota * (now - at) end
  if found < 0 then found = 0 end
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
    next_at, next_x, next_y = now, after, burst * window
    if shaped then
      local units = found
      -- @include steps/drain_ms
      delay = drain_ms
    end
  end
end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
  -- As floor_div, but without a call.
  remaining = left / window
  remaining = remaining - remaining % 1
  if remaining * window > left then remaining = remaining - 1 end
end
if quota > 0 and after > 0 then
  local units = after
  -- @include steps/drain_ms
  reset = drain_ms
end
