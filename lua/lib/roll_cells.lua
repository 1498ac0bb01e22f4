--[[
  The two cells of a sliding counter as they stand now: the start of the current one, its units, those of the one before. A cell
  in the future means that the clock ran back: its count and the previous one's count now, in full. A count above the
  quota would make no difference, and could grow without end.
]]
local function roll_cells(quota, window, now, at, current, previous)
  local cell = now - math.fmod(now, window)
  if not at then return cell, 0, 0 end
  if at == cell then return cell, current, previous end
  if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
  if at == cell - window then return cell, 0, current end
  return cell, 0, 0
end
