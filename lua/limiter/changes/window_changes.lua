-- Changes of a fixed window: see arithmetic.lua.
local fixed_window = require 'limiter.algorithms.fixed_window'
local notes = require 'limiter.notes'
local window_changes = {}

function window_changes.measure(limit, now, cost, at, spent)
  return fixed_window.measure(limit.quota, limit.window, limit.third, now, cost, at, spent)
end

function window_changes.charge(limit, now, cost, at, spent)
  local _, _, _, _, start, before = window_changes.measure(limit, now, 0, at, spent)
  return start or now, before + cost, 0
end

function window_changes.refund(limit, now, cost, at, spent, _, note)
  local _, _, _, _, start, before = window_changes.measure(limit, now, 0, at, spent)
  if not start then return end
  local back = math.min(cost, before)
  notes.add_refund(note, now, back, note.cut_at and note.cut_at >= start)
  return start, before - back, 0
end

-- All units of the decision's own window are equal: they expire together.
function window_changes.settle(limit, now, units, receipt, at, spent, _, note)
  local window, charged_at = limit.window, receipt.charged_at
  local starts_at = limit.third or at
  if charged_at < at or charged_at < starts_at or charged_at - starts_at >= window then return end
  -- After the clock stepped back, this may be another window that was moved to the present.
  if at <= now and charged_at > now then return end
  if now - starts_at >= window then return end
  return at, spent - math.min(units, spent, notes.own_units_left(receipt, note)), 0
end

-- A lease ends with its window.
function window_changes.room(limit, now, ttl, at, spent)
  local _, remaining, reset = window_changes.measure(limit, now, 0, at, spent)
  return remaining, math.min(ttl, (reset > 0 and reset or limit.window) - 1)
end

function window_changes.raised(_, _, _, at, spent) return at, spent, 0 end

function window_changes.returnable(_, units) return units end

return window_changes
