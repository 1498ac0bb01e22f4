--[[
  sliding-counter: two counters. Row: at = start of the current cell (a multiple of the window; nil: never used), x and
  y = units in it and in the cell before, which counts in proportion to its overlap with the sliding window.
  lua/limiter/lib/limits.lua (functions_of) describes the pieces.
]]

--[[
  Returns the two cells of a sliding counter as of now: the start of the current cell, its units, and the units of the
  cell before. If a cell is in the future, the clock was set back: then the units of both count in full now, but at most
  the quota, so that the count cannot grow without bound.
]]
local function roll_cells(quota, window, now, at, current, previous)
  local cell = now - math.fmod(now, window)
  if not at then return cell, 0, 0 end
  if at == cell then return cell, current, previous end
  if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
  if at == cell - window then return cell, 0, current end
  return cell, 0, 0
end

function measure()
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
end

function functions()
  -- @inline rows.measure_function
  functions = {
    notes_resets = true,
    measure = measure,
    charge = function(limit, now, cost, at, x, y)
      local cell, inside, before = roll_cells(limit.quota, limit.window, now, at, x, y)
      return cell, inside + cost, before
    end,
    refund = function(limit, now, cost, at, x, y, note)
      if not at then return end
      local cell, inside, before = roll_cells(limit.quota, limit.window, now, at, x, y)
      local from_inside = math.min(cost, inside)
      local from_before = math.min(cost - from_inside, before)
      refund_note_add(note, now, from_inside + from_before, note.cut_at and note.cut_at >= cell - limit.window)
      return cell, inside - from_inside, before - from_before
    end,
    -- From the cell of the charge: all units of one cell have the same weight at any time.
    settle = function(limit, now, units, receipt, at, x, y, note)
      local window, charged_at = limit.window, receipt.charged_at
      local cell, now_cell = charged_at - math.fmod(charged_at, window), now - math.fmod(now, window)
      -- The clock stepped back: the units of this cell may be counted in an earlier one by now.
      if cell > now_cell and at <= now_cell then return end
      if now_cell - cell > window then return end
      if cell ~= at and cell ~= at - window then return end
      local most = math.min(units, own_units_left(receipt, note))
      if cell == at then return at, x - math.min(most, x), y end
      return at, x, y - math.min(most, y)
    end,
    -- A lease ends with its cell.
    room = function(limit, now, ttl, at, x, y)
      local _, remaining = measure(limit, now, 0, at, x, y)
      return remaining, math.min(ttl, limit.window - math.fmod(now, limit.window) - 1)
    end,
    raised = function(_, _, _, at, x, y) return at, x, y end,
    returnable = function(_, units) return units end,
    ahead = function(limit, now, ahead, cost, at, x, y)
      local units, wait = whole_windows(limit, ahead, cost)
      if not units then return -1 end
      return wait + measure(limit, now, units, at, x, y)
    end,
  }
end
