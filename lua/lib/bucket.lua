--[[ The common functions of token-bucket and leaky-bucket (`shaped`): see functions_of. ]]
-- @include ceil_div
-- @include floor_div
-- @include refund_note_add
-- units x ms in a full bucket; 0 at quota 0.
local function bucket_capacity(limit) return limit.quota > 0 and limit.burst * limit.window or 0 end
-- The level that is the same share of another capacity, rounded up. Exact, unless the product of both capacities over their greatest divisor leaves the
-- exact integers.
local function bucket_scaled(level, from, to)
  if from == to or from == 0 or to == 0 then return level end
  local divisor, rest = from, to
  while rest > 0 do divisor, rest = rest, math.fmod(divisor, rest) end
  local whole, part = from / divisor, to / divisor
  rest = math.fmod(level, whole)
  return math.min((level - rest) / whole * part + math.ceil(rest * part / whole), 9007199254740991)
end
-- The level at the row's own time, as the limit counts it; and what to write as y beside such a level.
local function bucket_found(limit, x, y)
  local capacity = bucket_capacity(limit)
  return bucket_scaled(x, y, capacity), capacity > 0 and capacity or y
end
local function bucket_level(limit, now, at, x, y)
  local found, capacity = bucket_found(limit, x, y)
  if not at then return 0, capacity end
  -- After the clock was set back, nothing is regained.
  return math.max(0, found - limit.quota * math.max(0, now - at)), capacity
end
-- Counts what the note says of levels as the limit does. What may still be given back is rounded down, what was given back is rounded up.
local function scale_note(limit, note)
  local from, to = note.capacity, bucket_capacity(limit)
  if from == to or to == 0 then return end
  note.left = math.max(0, -bucket_scaled(-note.left, from, to))
  for i = 3, #note.gaps, 3 do note.gaps[i] = bucket_scaled(note.gaps[i], from, to) end
  note.capacity = to
end
-- How much of the charges before the last refund can still be given back, in units x ms; nil: no bound.
local function left_of_cut(limit, note, now)
  if not note.cut_at then return nil end
  if limit.quota > 0 and limit.quota * (now - note.cut_at) >= limit.burst * limit.window then return nil end
  return math.max(0, note.left - limit.quota * math.max(0, now - note.cut_at))
end
-- While a lease lasts, this much of the level from before its sale belongs to the lease, so a settlement must not give it back.
local function held_by_leases(limit, note, now)
  return limit.quota * math.max(0, (note.leased_until or 0) - now)
end
-- The units of a lease count as spent at its end: the level is first raised by what the bucket regains until then.
local function raised(limit, now, ttl, at, x, y)
  local level, capacity = bucket_level(limit, now, at, x, y)
  return now, math.max(level, limit.quota * ttl), capacity
end
local function bucket(shaped, measure, settle)
  return {
    notes_resets = true,
    scaled = bucket_scaled,
    notes_leases = true,
    room = function(limit, now, ttl, at, x, y)
      if limit.quota == 0 then return 0, ttl end
      local _, level = raised(limit, now, ttl, at, x, y)
      return math.max(0, floor_div(limit.burst * limit.window - level, limit.window)), ttl
    end,
    raised = raised,
    -- The bucket may have sold the units again that it has regained since the sale.
    returnable = function(limit, units, age)
      return math.max(0, floor_div(units * limit.window - limit.quota * age, limit.window))
    end,
    measure = measure,
    settle = settle,
    charge = function(limit, now, cost, at, x, y)
      local level, capacity = bucket_level(limit, now, at, x, y)
      -- Capped, because a debt without bound would exceed the integers that a float holds exactly.
      return now, math.min(level + cost * limit.window, 9007199254740991), capacity
    end,
    refund = function(limit, now, cost, at, x, y, note)
      if not at then return end
      local level, capacity = bucket_level(limit, now, at, x, y)
      local rest = level - math.min(level, math.max(0, cost * limit.window - held_by_leases(limit, note, now)))
      if level > 0 then
        scale_note(limit, note)
        local left = left_of_cut(limit, note, now)
        note.left = math.min(rest, left or rest)
        refund_note_add(note, now, cost, left)
      end
      return now, rest, capacity
    end,
    ahead = function(limit, now, ahead, cost, at, x, y, waits)
      local quota, window, burst = limit.quota, limit.window, limit.burst
      if quota == 0 or cost > burst then return -1 end
      local level = bucket_level(limit, now, at, x, y)
      if shaped and waits then return ceil_div(level + ahead * window, quota) end
      local over = math.max(0, level + (ahead + cost - burst) * window)
      if shaped and ahead > 0 then over = math.max(over, level + (ahead - 1) * window) end
      return ceil_div(over, quota)
    end,
  }
end
