--[[
  fixed-window: a counter that starts at a key's first request: at = its start (nil: never used), x = units since. A stretch of code,
  not a function, because a call would cost as much again: it reads quota, window, now, cost, at and x, and sets retry (0
  allowed, -1 never), remaining, reset, delay and the next at, x and y.
]]
next_at, next_x, next_y = at, x, 0
retry, delay = 0, 0
if at then
  -- A start in the future is moved to now.
  if at > now then
    next_at = now
  elseif at - now + window <= 0 then
    next_at, next_x = nil, 0
  end
end
if cost > quota then
  retry = -1
elseif cost > 0 and next_x + cost > quota then
  retry = next_at - now + window
elseif cost > 0 then
  next_at = next_at or now
  next_x = next_x + cost
end
remaining = next_x < quota and quota - next_x or 0
reset = next_at and next_at - now + window or 0
