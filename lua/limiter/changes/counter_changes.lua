-- Changes of a sliding counter: see arithmetic.lua.
local sliding_counter = require 'limiter.algorithms.sliding_counter'
local notes = require 'limiter.notes'
local counter_changes = {}

counter_changes.notes_resets = true

function counter_changes.measure(limit, now, cost, at, spent, previous)
  return sliding_counter.measure(limit.quota, limit.window, nil, now, cost, at, spent, previous)
end

-- The row as of now: the start of the current cell, its units, and those of the cell before.
function counter_changes.rolled(limit, now, at, spent, previous)
  local cell = now - math.fmod(now, limit.window)
  if not at then return cell, 0, 0 end
  if at == cell then return cell, spent, previous end
  -- The clock was set back: see sliding_counter.measure.
  if at > cell then return cell, math.min(spent + previous, math.max(limit.quota, spent)), 0 end
  if at == cell - limit.window then return cell, 0, spent end
  return cell, 0, 0
end

function counter_changes.charge(limit, now, cost, at, spent, previous)
  local cell, inside, before = counter_changes.rolled(limit, now, at, spent, previous)
  return cell, inside + cost, before
end

function counter_changes.refund(limit, now, cost, at, spent, previous, note)
  if not at then return end
  local cell, inside, before = counter_changes.rolled(limit, now, at, spent, previous)
  local from_inside = math.min(cost, inside)
  local from_before = math.min(cost - from_inside, before)
  notes.add_refund(note, now, from_inside + from_before, note.cut_at and note.cut_at >= cell - limit.window)
  return cell, inside - from_inside, before - from_before
end

-- From the cell of the charge: all units of one cell have the same weight at any time.
function counter_changes.settle(limit, now, units, receipt, at, spent, previous, note)
  local window, charged_at = limit.window, receipt.charged_at
  local cell, now_cell = charged_at - math.fmod(charged_at, window), now - math.fmod(now, window)
  -- The clock stepped back: the units of this cell may be counted in an earlier one by now.
  if cell > now_cell and at <= now_cell then return end
  if now_cell - cell > window then return end
  if cell ~= at and cell ~= at - window then return end
  local most = math.min(units, notes.own_units_left(receipt, note))
  if cell == at then return at, spent - math.min(most, spent), previous end
  return at, spent, previous - math.min(most, previous)
end

-- A lease ends with its cell.
function counter_changes.room(limit, now, ttl, at, spent, previous)
  local _, remaining = counter_changes.measure(limit, now, 0, at, spent, previous)
  return remaining, math.min(ttl, limit.window - math.fmod(now, limit.window) - 1)
end

function counter_changes.raised(_, _, _, at, spent, previous) return at, spent, previous end

function counter_changes.returnable(_, units) return units end

return counter_changes
