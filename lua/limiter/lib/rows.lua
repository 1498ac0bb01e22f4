-- States that are a row of three numbers: all algorithms but the sliding window have one.

--[[ The piece `measure` of an algorithm as a function. ]]
function measure_function()
  local function measure(limit, now, cost, at, x, y)
    local quota, window, burst = limit.quota, limit.window, limit.burst
    local retry, remaining, reset, delay, next_at, next_x, next_y
    -- @inline ALGORITHM.measure
    return retry, remaining, reset, delay, next_at, next_x, next_y
  end
end

--[[
  Opens the state of a key under one limit, if that is a row of numbers. Returns an object with
    err                          the text of an error, if the key holds something else
    reset()                      ms until the state of the key no longer matters
    ahead(limit, ahead, cost, passes) when a waiter fits: see functions_of. `passes`: for a request that does not wait
    in line
    grant(limit, cost)           spends what fits; returns remaining and reset
    charge(cost)                 spends even if it does not fit
    refund(limit, cost, note_key)   gives back the newest units
    settle(units, receipt, note_key) gives back own units of a decision or grant, dated at the moment when they were
    charged
    look(cost)                   retry, remaining and reset of a request, which spends nothing
    room(ttl)                    how many units may be sold as a lease of `ttl` ms, and how long it may last
    buy(units, ttl, note_key)    sells that many units
    save()                       writes the changes
  `limit` may be that of an older configuration, under which a waiter has asked or a decision was made: the key never
  lives shorter than it was to. A row from the future is from before the server's clock was set back, or from a server
  whose clock is ahead: it is moved to now, and save() writes that, unless `read_only`.
]]
local function row_state(limit, key, now, expires_at, functions, read_only)
  local call, read = redis.call, struct.unpack
  local value, failure, at = redis.pcall('GET', key), nil, nil
  local x, y, expires, asked_in, changed = 0, 0, 0, 0, false
  local may_be_foreign = type(value) == 'table'
  if may_be_foreign then value = false end
  -- @inline decision.read_row

  local function set_row(next_at, next_x, next_y)
    if not next_at then return false end
    at, x, y, changed = next_at, next_x, next_y, true
    return true
  end
  local function reset()
    -- At quota 0 a bucket keeps its level for the limit after it.
    if functions.scaled and limit.quota == 0 and x > 0 then return limit.window end
    local _, _, ms = functions.measure(limit, now, 0, at, x, y)
    return ms
  end
  local left = at and not failure and call('PTTL', key)
  if left and not read_only then
    local _, _, _, _, next_at, next_x, next_y = functions.measure(limit, now, 0, at, x, y)
    if next_at ~= at or next_x ~= x or next_y ~= y then set_row(next_at, next_x, next_y) end
    -- Under a slower limit the state matters for longer.
    if left < reset() then changed = true end
  end
  return {
    err = failure,
    reset = reset,
    ahead = function(asked_limit, ahead, cost, passes) return functions.ahead(asked_limit, now, ahead, cost, at, x, y, not passes) end,
    grant = function(asked_limit, cost)
      local _, remaining, ms, _, next_at, next_x, next_y = functions.measure(asked_limit, now, cost, at, x, y)
      set_row(next_at, next_x, next_y)
      return remaining, ms
    end,
    look = function(cost) return functions.measure(limit, now, cost, at, x, y) end,
    room = function(ttl) return functions.room(limit, now, ttl, at, x, y) end,
    buy = function(units, ttl, note_key)
      if functions.notes_leases then
        local note = refund_note_open(note_key)
        note.leased_until = math.max(note.leased_until or 0, now + ttl)
        refund_note_save(note_key, note, limit, expires_at)
      end
      set_row(functions.charge(limit, now, units, functions.raised(limit, now, ttl, at, x, y)))
    end,
    charge = function(cost) set_row(functions.charge(limit, now, cost, at, x, y)) end,
    refund = function(asked_limit, cost, note_key)
      local note = refund_note_open(note_key)
      if set_row(functions.refund(asked_limit, now, cost, at, x, y, note)) then refund_note_save(note_key, note, asked_limit, expires_at) end
    end,
    settle = function(units, receipt, note_key)
      if not at then return end
      local note = refund_note_open(note_key)
      if set_row(functions.settle(limit, now, units, receipt, at, x, y, note)) then refund_note_save(note_key, note, limit, expires_at) end
    end,
    save = function()
      if not changed then return end
      local row, expire_at = struct.pack('<ddddd', at, x, y, 0, 0), expires_at(reset(), left)
      if expire_at then
        call('SET', key, row, 'PXAT', expire_at)
      else
        call('SETRANGE', key, '0', row)
      end
    end,
  }
end

--[[
  Reads the refund note of a key: the data that settlements need in addition to its state: cut_at (the last refund or
  reset; nil: none), refunded (units given back of those charged until then), left (buckets: the level just after it),
  gaps (token bucket: from, to and size of each), capacity (buckets: y of the row as which left and gaps are counted).
]]
local function refund_note_open(key)
  local packed = redis.call('GET', key)
  if not packed then return { refunded = 0, left = 0, gaps = {}, capacity = 0 } end
  local cut_at, refunded, left, gaps, leased_until, capacity = unpack(cmsgpack.unpack(packed))
  return {
    cut_at = cut_at or nil,
    refunded = refunded,
    left = left,
    gaps = gaps,
    leased_until = leased_until or nil,
    capacity = capacity,
  }
end

--[[
  Writes a refund note. Its lifetime ends when no decision that it concerns can be settled any more, be it one of the
  limit before a change, which took longer to fill.
]]
local function refund_note_save(key, note, limit, expires_at)
  if not note.cut_at and #note.gaps == 0 and not note.leased_until then return end
  local lasts = 2 * limit.window
  -- For a calendar window, burst is its start.
  if limit.quota > 0 and limit.algorithm ~= 'calendar-window' then lasts = math.max(lasts, math.ceil(limit.burst * limit.window / limit.quota)) end
  local left = redis.call('PTTL', key)
  local packed = cmsgpack.pack({ note.cut_at or false, note.refunded, note.left, note.gaps, note.leased_until or false, note.capacity })
  local expire_at = expires_at(lasts, left)
  if expire_at then
    redis.call('SET', key, packed, 'PXAT', expire_at)
  else
    redis.call('SET', key, packed, 'KEEPTTL')
  end
end

--[[ Adds a refund of `units` to a refund note. `continues`: true if earlier refunds still matter. ]]
local function refund_note_add(note, now, units, continues)
  if units == 0 then return end
  note.refunded = math.min(9007199254740991, continues and note.refunded + units or units)
  note.cut_at = now
end

--[[ How many of a decision's own units certainly still count, after the refunds in `note` (see refund_note_open). ]]
local function own_units_left(receipt, note)
  if not note.cut_at or receipt.charged_at > note.cut_at then return receipt.cost end
  return math.max(0, receipt.cost - note.refunded)
end
