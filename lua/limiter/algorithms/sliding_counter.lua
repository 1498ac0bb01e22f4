-- sliding-counter: two counters. Row: at = the start of the current cell, a multiple of the window (nil: never used);
-- spent, previous = units in it and in the cell before, which counts in proportion to its overlap with the window.
local numbers = require 'limiter.numbers'
local sliding_counter = {}

sliding_counter.delays = false

--- As fixed_window.measure.
function sliding_counter.measure(quota, window, _, now, cost, at, spent, previous)
  local cell = now - math.fmod(now, window)
  local inside, before = 0, 0
  if at == cell then
    inside, before = spent, previous
  elseif at and at > cell then
    -- The clock was set back: both count in full, but at most the quota, so that the count cannot grow without bound.
    inside = math.min(spent + previous, math.max(quota, spent))
  elseif at and at == cell - window then
    before = spent
  end
  local overlap, room = cell - now + window, quota - cost - inside
  local retry, remaining, reset = 0, 0, 0
  if cost > quota then
    retry = -1
  elseif cost > 0 and room < 0 then
    retry = overlap + window - numbers.floor_div((quota - cost) * window, inside)
  elseif cost > 0 and before * overlap > room * window then
    retry = overlap - numbers.floor_div(room * window, before)
  elseif cost > 0 then
    inside = inside + cost
  end
  local counted = inside + numbers.ceil_div(before * overlap, window)
  if quota > counted then remaining = quota - counted end
  if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
  -- Only what is admitted, and what a clock that was set back has left in the future, is written.
  if retry == 0 and cost > 0 or at and at > cell then at, spent, previous = cell, inside, before end
  return retry, remaining, reset, 0, at, spent, previous
end

return sliding_counter
