--[[ The common functions of token-bucket and leaky-bucket (`shaped`): see functions_of. ]]
-- units x ms in a full bucket; 0 at quota 0.
local function bucket_capacity(limit) return limit.quota > 0 and limit.burst * limit.window or 0 end
-- The level that is the same share of another capacity, rounded up. Exact, unless the product of both capacities over
-- their greatest divisor leaves the exact integers.
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
-- Counts what the note says of levels as the limit does. What may still be given back is rounded down, what was given
-- back is rounded up.
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
-- While a lease lasts, this much of the level from before its sale belongs to the lease, so a settlement must not give
-- it back.
local function held_by_leases(limit, note, now)
  return limit.quota * math.max(0, (note.leased_until or 0) - now)
end
-- The units of a lease count as spent at its end: the level is first raised by what the bucket regains until then.
local function bucket_raised(limit, now, ttl, at, x, y)
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
      local _, level = bucket_raised(limit, now, ttl, at, x, y)
      return math.max(0, floor_div(limit.burst * limit.window - level, limit.window)), ttl
    end,
    raised = bucket_raised,
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

--[[
  The piece `measure` of token-bucket and leaky-bucket. Row: at = the moment of the level (nil: never used); x = the
  level, that is the units spent and not yet regained, times window, a whole number for every rate; y = burst times
  window of the limit under which the level is counted (0: only limits of quota 0 have written it). Under another limit
  the level is scaled, so that a limit that is changed under its name keeps the share that is left. A refusal does not
  write the scaled level: it would be rounded up again and again. At quota 0 nothing drains, and the level stays as it
  is until the quota is raised. An admitted request of a leaky (`shaped`) bucket waits until the level before it has
  drained.
]]
function measure()
  local most, found = 0, x
  if quota > 0 then
    most = burst
    if at and y ~= burst * window then found = bucket_scaled(x, y, burst * window) end
    -- After the clock was set back, nothing is regained.
    if at and now > at then found = found - quota * (now - at) end
    if found < 0 then found = 0 end
  end
  local after = found
  retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
  if at and at > now then next_at = now end
  if cost > 0 then
    -- No compared value exceeds burst x window, which the policy keeps below 2^53; a sum of both sides could.
    local over = found - (most - cost) * window
    if cost > most then
      retry = -1
    elseif over > 0 then
      local units = over
      -- @inline bucket.drain_ms
      retry = drain_ms
    else
      after = found + cost * window
      next_at, next_x, next_y = now, after, burst * window
      if shaped then
        local units = found
        -- @inline bucket.drain_ms
        delay = drain_ms
      end
    end
  end
  remaining, reset = 0, 0
  local left = most * window - after
  if left > 0 then
    -- As floor_div, but without a call.
    remaining = left / window
    remaining = remaining - remaining % 1
    if remaining * window > left then remaining = remaining - 1 end
  end
  if quota > 0 and after > 0 then
    local units = after
    -- @inline bucket.drain_ms
    reset = drain_ms
  end
end

--[[ Gives `drain_ms`: in how many ms `units`, in units x ms, drain at `quota`: as ceil_div, but without a call. Reads
them. ]]
function drain_ms()
  local drain_ms = units / quota
  drain_ms = drain_ms - drain_ms % 1
  if drain_ms * quota > units then drain_ms = drain_ms - 1 end
  if drain_ms * quota < units then drain_ms = drain_ms + 1 end
end
