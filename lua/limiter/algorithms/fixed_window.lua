--[[
  fixed-window: a counter that starts at a key's first request. Row: at = start of the window (nil: never used), x =
  units spent since. lua/limiter/lib/limits.lua (functions_of) describes the pieces.
]]

function measure()
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
      if charged_at < at or charged_at - at >= limit.window then return end
      -- After the clock stepped back, this may be another window that was moved to the present.
      if at <= now and charged_at > now then return end
      if now - at >= limit.window then return end
      return at, x - math.min(units, x, own_units_left(receipt, note)), y
    end,
    -- A lease ends with its window.
    room = function(limit, now, ttl, at, x, y)
      local _, remaining, reset = measure(limit, now, 0, at, x, y)
      return remaining, math.min(ttl, (reset > 0 and reset or limit.window) - 1)
    end,
    raised = function(_, _, _, at, x, y) return at, x, y end,
    returnable = function(_, units) return units end,
    ahead = function(limit, now, ahead, cost, at, x, y)
      local quota, window = limit.quota, limit.window
      if cost > quota then return -1 end
      local _, remaining, reset = measure(limit, now, 0, at, x, y)
      local over = ahead + cost - remaining
      if over <= 0 then return 0 end
      return (reset > 0 and reset or window) + floor_div(over - 1, quota) * window
    end,
  }
end
