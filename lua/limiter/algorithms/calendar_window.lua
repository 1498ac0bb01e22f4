--[[
  calendar-window: a fixed window of the calendar, whose boundaries the caller has computed. `burst` is the moment at
  which the present window began, ms, and `window` its length. Row: at = a moment of the window in which units were
  spent (nil: never used), x = units spent in it. lua/limiter/lib/limits.lua (functions_of) describes the pieces.
]]

function traits()
  has_burst = true
end

function measure()
  next_at, next_x, next_y = at, x, 0
  retry, delay = 0, 0
  if at then
    -- A moment in the future is moved to now.
    if at > now then
      next_at = now
    elseif at < burst then
      next_at, next_x = nil, 0
    end
  end
  local left = burst - now + window
  if cost > quota then
    retry = -1
  elseif cost > 0 and next_x + cost > quota then
    retry = left
  elseif cost > 0 then
    next_at = next_at or now
    next_x = next_x + cost
  end
  remaining = next_x < quota and quota - next_x or 0
  reset = next_at and left or 0
end

function functions()
  -- @inline rows.measure_function
  functions = {
    measure = measure,
    charge = function(limit, now, cost, at, x, y)
      local _, _, _, _, start, spent = measure(limit, now, 0, at, x, y)
      return start or now, spent + cost, 0
    end,
    refund = function(limit, now, cost, at, x, y, note)
      local _, _, _, _, start, spent = measure(limit, now, 0, at, x, y)
      if not start then return end
      local back = math.min(cost, spent)
      refund_note_add(note, now, back, note.cut_at and note.cut_at >= start)
      return start, spent - back, 0
    end,
    -- All units of the decision's own window are equal: they expire together.
    settle = function(limit, now, units, receipt, at, x, y, note)
      local charged_at = receipt.charged_at
      if charged_at < at or at < limit.burst or charged_at >= limit.burst + limit.window then return end
      -- After the clock stepped back, this may be another window that was moved to the present.
      if at <= now and charged_at > now then return end
      return at, x - math.min(units, x, own_units_left(receipt, note)), y
    end,
    ahead = function(limit, now, ahead, cost, at, x, y)
      local quota = limit.quota
      if cost > quota then return -1 end
      local _, remaining = measure(limit, now, 0, at, x, y)
      local over = ahead + cost - remaining
      if over <= 0 then return 0 end
      -- Later windows may be a tenth shorter than this one, as February is.
      return limit.burst - now + limit.window + floor_div(floor_div(over - 1, quota) * limit.window * 9, 10)
    end,
  }
end
