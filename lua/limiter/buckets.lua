-- What token-bucket and leaky-bucket have in common. Row: at = the moment of the level (nil: never used); level = the
-- units spent and not yet regained, times window, a whole number for every rate; capacity = burst x window of the limit
-- under which the level is counted (0: only limits of quota 0 have written it). Under another limit the level is
-- scaled, so that a limit that is changed keeps the share that is left. At quota 0 nothing drains, and the level stays
-- as it is until the quota is raised.
local notes = require 'limiter.notes'
local numbers = require 'limiter.numbers'
local buckets = {}

--- units x ms in a full bucket; 0 at quota 0.
function buckets.capacity(limit)
  return limit.quota > 0 and limit.third * limit.window or 0
end

--- The level that is the same share of another capacity, rounded up. Exact, unless the product of both capacities over
--- their greatest divisor leaves the exact integers.
function buckets.scaled(level, from, to)
  if from == to or from == 0 or to == 0 then return level end
  local divisor, rest = from, to
  while rest > 0 do divisor, rest = rest, math.fmod(divisor, rest) end
  local whole, part = from / divisor, to / divisor
  rest = math.fmod(level, whole)
  return math.min((level - rest) / whole * part + math.ceil(rest * part / whole), 9007199254740991)
end

--- The level at the row's own time, as the limit counts it; and the capacity to write beside such a level.
function buckets.found(limit, level, capacity)
  local own = buckets.capacity(limit)
  return buckets.scaled(level, capacity, own), own > 0 and own or capacity
end

--- The same as of now.
function buckets.level(limit, now, at, level, capacity)
  local found, counted = buckets.found(limit, level, capacity)
  if not at then return 0, counted end
  -- After the clock was set back, nothing is regained.
  return math.max(0, found - limit.quota * math.max(0, now - at)), counted
end

--- Counts what the note says of levels as the limit does. What may still be given back is rounded down, what was given
--- back is rounded up.
function buckets.scale_note(limit, note)
  local from, to = note.capacity, buckets.capacity(limit)
  if from == to or to == 0 then return end
  note.left = math.max(0, -buckets.scaled(-note.left, from, to))
  for i = 3, #note.gaps, 3 do note.gaps[i] = buckets.scaled(note.gaps[i], from, to) end
  note.capacity = to
end

--- How much of the charges before the last refund can still be given back, in units x ms; nil: no bound.
function buckets.left_of_cut(limit, note, now)
  if not note.cut_at then return nil end
  if limit.quota > 0 and limit.quota * (now - note.cut_at) >= limit.third * limit.window then return nil end
  return math.max(0, note.left - limit.quota * math.max(0, now - note.cut_at))
end

--- While a lease lasts, this much of the level from before its sale belongs to the lease, so a settlement must not give
--- it back.
function buckets.held_by_leases(limit, note, now)
  return limit.quota * math.max(0, (note.leased_until or 0) - now)
end

function buckets.charge(limit, now, cost, at, level, capacity)
  local before, counted = buckets.level(limit, now, at, level, capacity)
  -- Capped, because a debt without bound would exceed the integers that a float holds exactly.
  return now, math.min(before + cost * limit.window, 9007199254740991), counted
end

function buckets.refund(limit, now, cost, at, level, capacity, note)
  if not at then return end
  local before, counted = buckets.level(limit, now, at, level, capacity)
  local back = math.max(0, cost * limit.window - buckets.held_by_leases(limit, note, now))
  local rest = before - math.min(before, back)
  if before > 0 then
    buckets.scale_note(limit, note)
    local left = buckets.left_of_cut(limit, note, now)
    note.left = math.min(rest, left or rest)
    notes.add_refund(note, now, cost, left)
  end
  return now, rest, counted
end

--- The units of a lease count as spent at its end: the level is first raised by what the bucket regains until then.
function buckets.raised(limit, now, ttl, at, level, capacity)
  local before, counted = buckets.level(limit, now, at, level, capacity)
  return now, math.max(before, limit.quota * ttl), counted
end

function buckets.room(limit, now, ttl, at, level, capacity)
  if limit.quota == 0 then return 0, ttl end
  local _, raised = buckets.raised(limit, now, ttl, at, level, capacity)
  return math.max(0, numbers.floor_div(limit.third * limit.window - raised, limit.window)), ttl
end

--- The bucket may have sold the units again that it has regained since the sale.
function buckets.returnable(limit, units, age)
  return math.max(0, numbers.floor_div(units * limit.window - limit.quota * age, limit.window))
end

return buckets
