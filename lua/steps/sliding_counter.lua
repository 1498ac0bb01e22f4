--[[
  sliding-counter: two counters: at = start of the current cell (a multiple of the window; nil: never used), x and y = units in it and
  in the one before, which weighs as much as the sliding window still overlaps it. A stretch of code, not a function, because a
  call would cost as much again: it reads quota, window, now, cost, at, x and y, uses roll_cells, floor_div and ceil_div, and
  sets retry (0 allowed, -1 never), remaining, reset, delay and the next at, x and y.
]]
local cell, inside, before = roll_cells(quota, window, now, at, x, y)
local overlap = cell - now + window
local room = quota - cost - inside
retry, reset, delay = 0, 0, 0
if cost > quota then
  retry = -1
elseif cost > 0 and room < 0 then
  retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
  retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
  inside = inside + cost
end
remaining = quota - inside - ceil_div(before * overlap, window)
if remaining < 0 then remaining = 0 end
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
if retry == 0 and cost > 0 or at and at > cell then
  next_at, next_x, next_y = cell, inside, before
else
  next_at, next_x, next_y = at, x, y
end
