--[[ The common functions of token-bucket and leaky-bucket (`shaped`): see functions_of. ]]
-- @include ceil_div
-- @include floor_div
-- @include refund_note_add
local function bucket_level(limit, now, at, level)
  if not at then return 0 end
  -- After the clock was set back, nothing is regained.
  return math.max(0, level - limit.quota * math.max(0, now - at))
end
-- How much of the charges before the last refund can still be given back, in units x ms; nil: no bound.
local function left_of_cut(limit, note, now)
  if not note.cut_at or limit.quota * (now - note.cut_at) >= limit.burst * limit.window then return nil end
  return math.max(0, note.left - limit.quota * math.max(0, now - note.cut_at))
end
-- While a lease lasts, this much of the level from before its sale belongs to the lease, so a settlement must not give it back.
local function held_by_leases(limit, note, now)
  return limit.quota * math.max(0, (note.leased_until or 0) - now)
end
-- The units of a lease count as spent at its end: the level is first raised by what the bucket regains until then.
local function raised(limit, now, ttl, at, x)
  return now, math.max(bucket_level(limit, now, at, x), limit.quota * ttl), limit.quota
end
local function bucket(shaped, measure, settle)
  return {
    notes_resets = true,
    keeps_quota = true,
    notes_leases = true,
    room = function(limit, now, ttl, at, x, y)
      if limit.quota == 0 then return 0, ttl end
      local _, level = raised(limit, now, ttl, at, x)
      return math.max(0, floor_div(limit.burst * limit.window - level, limit.window)), ttl
    end,
    raised = raised,
    -- The bucket may have sold the units again that it has regained since the sale.
    returnable = function(limit, units, age)
      return math.max(0, floor_div(units * limit.window - limit.quota * age, limit.window))
    end,
    measure = measure,
    settle = settle,
    charge = function(limit, now, cost, at, x)
      -- Capped, because a debt without bound would exceed the integers that a float holds exactly.
      return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), limit.quota
    end,
    refund = function(limit, now, cost, at, x, y, note)
      if not at then return end
      local level = bucket_level(limit, now, at, x)
      local rest = level - math.min(level, math.max(0, cost * limit.window - held_by_leases(limit, note, now)))
      if level > 0 then
        local left = left_of_cut(limit, note, now)
        note.left = math.min(rest, left or rest)
        refund_note_add(note, now, cost, left)
      end
      return now, rest, limit.quota
    end,
    ahead = function(limit, now, ahead, cost, at, x, y, waits)
      local quota, window, burst = limit.quota, limit.window, limit.burst
      if quota == 0 or cost > burst then return -1 end
      local level = bucket_level(limit, now, at, x)
      if shaped and waits then return ceil_div(level + ahead * window, quota) end
      local over = math.max(0, level + (ahead + cost - burst) * window)
      if shaped and ahead > 0 then over = math.max(over, level + (ahead - 1) * window) end
      return ceil_div(over, quota)
    end,
  }
end
