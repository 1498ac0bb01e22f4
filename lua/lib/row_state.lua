--[[
  Opens the state of a key under one limit, if that is a row of numbers. Returns an object with
    err                          the text of an error, if the key holds something else
    reset()                      ms until the state of the key no longer matters
    ahead(limit, ahead, cost, passes)   when a waiter fits: see functions_of. `passes`: for a request that does not wait in line
    grant(limit, cost)           spends what fits; returns remaining and reset
    charge(cost)                 spends even if it does not fit
    refund(limit, cost, note_key)   gives back the newest units
    settle(units, receipt, note_key)  gives back own units of a decision or grant, dated at the moment when they were charged
    look(cost)                   retry, remaining and reset of a request, which spends nothing
    room(ttl)                    how many units may be sold as a lease of `ttl` ms, and how long it may last
    buy(units, ttl, note_key)    sells that many units
    repair_clock()               after the clock was set back, moves moments in the future to now
    save()                       writes the changes
  `limit` may be that of an older configuration, under which a waiter has asked.
]]
-- @include refund_note_open
-- @include refund_note_save
local function row_state(limit, key, now, expires_at, functions)
  local call, read = redis.call, struct.unpack
  local value, failure, at = redis.pcall('GET', key), nil, nil
  local x, y, expires, changed = 0, 0, 0, false
  local strange = type(value) == 'table'
  if strange then value = false end
  -- @include steps/read_row

  local function become(next_at, next_x, next_y)
    if not next_at then return false end
    at, x, y, changed = next_at, next_x, next_y, true
    return true
  end
  local function reset()
    local _, _, ms = functions.measure(limit, now, 0, at, x, y)
    return ms
  end
  return {
    err = failure,
    reset = reset,
    ahead = function(own, ahead, cost, passes) return functions.ahead(own, now, ahead, cost, at, x, y, not passes) end,
    grant = function(own, cost)
      local _, remaining, ms, _, next_at, next_x, next_y = functions.measure(own, now, cost, at, x, y)
      become(next_at, next_x, next_y)
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
      become(functions.charge(limit, now, units, functions.raised(limit, now, ttl, at, x, y)))
    end,
    charge = function(cost) become(functions.charge(limit, now, cost, at, x, y)) end,
    refund = function(own, cost, note_key)
      local note = refund_note_open(note_key)
      if become(functions.refund(own, now, cost, at, x, y, note)) then refund_note_save(note_key, note, own, expires_at) end
    end,
    settle = function(units, receipt, note_key)
      if not at then return end
      local note = refund_note_open(note_key)
      if become(functions.settle(limit, now, units, receipt, at, x, y, note)) then refund_note_save(note_key, note, limit, expires_at) end
    end,
    repair_clock = function()
      local _, _, _, _, next_at, next_x, next_y = functions.measure(limit, now, 0, at, x, y)
      if next_at ~= at or next_x ~= x or next_y ~= y then become(next_at, next_x, next_y) end
    end,
    save = function()
      if not changed then return end
      if functions.keeps_quota then y = limit.quota end
      local text = expires_at(reset())
      local lives_until = tonumber(text)
      call('SET', key, struct.pack('<dddd', at, x, y, expires > 0 and lives_until or -lives_until), 'PXAT', text)
    end,
  }
end
