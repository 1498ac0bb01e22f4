--[[
  Two counters: at = start of the current cell (a multiple of the window; nil: never used), current and previous = units in it
  and in the one before, which weighs as much as the sliding window still overlaps it.
  Returns retry (0 allowed, -1 never), remaining, reset, delay, then the next at, current, previous.
]]
-- @include roll_cells
-- @include floor_div
-- @include ceil_div
local function sliding_counter(limit, now, cost, at, current, previous)
  local quota, window = limit.quota, limit.window
  local cell, inside, before = roll_cells(limit, now, at, current, previous)
  local overlap = cell - now + window
  local room = quota - cost - inside
  local retry = 0
  if cost > quota then
    retry = -1
  elseif cost > 0 and room < 0 then
    retry = overlap + window - floor_div((quota - cost) * window, inside)
  elseif cost > 0 and before * overlap > room * window then
    retry = overlap - floor_div(room * window, before)
  elseif cost > 0 then
    inside = inside + cost
  end
  local remaining = math.max(0, quota - inside - ceil_div(before * overlap, window))
  local reset = 0
  if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
  local spent = retry == 0 and cost > 0
  if spent or (at and at > cell) then return retry, remaining, reset, 0, cell, inside, before end
  return retry, remaining, reset, 0, at, current, previous
end
