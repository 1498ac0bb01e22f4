-- fixed-window: a counter that starts at a key's first request; or, for a window of the calendar, at a given moment.
-- Row: at = the start of the window, of the calendar's a moment in it (nil: never used); spent = units spent since; 0.
local fixed_window = {}

-- Whether what is admitted may have to wait.
fixed_window.delays = false

--- Decides a request of `cost` units; 0 only looks. `quota`, `window` (ms), `starts_at` (of a window of the calendar,
--- ms; else nil): the limit. Returns
---   retry      0: allowed; -1: never; else in how many ms
---   remaining  units; reset: ms until the row no longer matters; delay: for how many ms an admitted request waits
---   at, spent  the row after it, and its third number
function fixed_window.measure(quota, window, starts_at, now, cost, at, spent)
  local retry, remaining, reset = 0, 0, 0
  -- A window that has started before is over.
  local earliest = starts_at or now - window + 1
  if at and at > now then
    -- The clock was set back.
    at = now
  elseif at and at < earliest then
    at, spent = nil, 0
  end
  if cost > quota then
    retry = -1
  elseif cost > 0 and spent + cost > quota then
    retry = (starts_at or at) - now + window
  elseif cost > 0 then
    at, spent = at or now, spent + cost
  end
  if spent < quota then remaining = quota - spent end
  if at then reset = (starts_at or at) - now + window end
  return retry, remaining, reset, 0, at, spent, 0
end

return fixed_window
