-- Changes of a leaky bucket: see arithmetic.lua.
local buckets = require 'limiter.buckets'
local leaky_bucket = require 'limiter.algorithms.leaky_bucket'
local notes = require 'limiter.notes'
local leaky_changes = {}

leaky_changes.notes_resets = true
leaky_changes.notes_leases = true
leaky_changes.is_bucket = true
leaky_changes.charge = buckets.charge
leaky_changes.refund = buckets.refund
leaky_changes.raised = buckets.raised
leaky_changes.room = buckets.room
leaky_changes.returnable = buckets.returnable

function leaky_changes.measure(limit, now, cost, at, level, capacity)
  return leaky_bucket.measure(limit.quota, limit.window, limit.third, now, cost, at, level, capacity)
end

-- A place is given back only if it is the last one: a freed place in the middle would let the next request leave
-- together with the last.
function leaky_changes.settle(limit, now, units, receipt, at, level, capacity, note)
  local present, charged_at = buckets.level(limit, now, at, level, capacity), receipt.charged_at
  if present == 0 or charged_at > now or note.cut_at and charged_at < note.cut_at then return end
  -- Each unit raises the level by a whole window, so the whole units of the verdict tell whether later requests were
  -- charged.
  local level_then = (limit.third - receipt.remaining) * limit.window
  if present + limit.quota * (now - charged_at) > level_then then return end
  local found, counted = buckets.found(limit, level, capacity)
  return at, found - math.min(math.min(units, notes.own_units_left(receipt, note)) * limit.window, present), counted
end

return leaky_changes
