--[[
  Returns the two cells of a sliding counter as of now: the start of the current cell, its units, and the units of the cell before. If a cell is in the
  future, the clock was set back: then the units of both count in full now, but at most the quota, so that the count cannot grow without bound.
]]
local function roll_cells(quota, window, now, at, current, previous)
  local cell = now - math.fmod(now, window)
  if not at then return cell, 0, 0 end
  if at == cell then return cell, current, previous end
  if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
  if at == cell - window then return cell, 0, current end
  return cell, 0, 0
end
