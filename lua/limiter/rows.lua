-- States that are a row of three numbers: at (a moment, ms; nil: never used), and two whose meaning is the algorithm's.
local ahead = require 'limiter.ahead'
local arithmetic = require 'limiter.arithmetic'
local foreign = require 'limiter.foreign'
local lifetimes = require 'redis.lifetimes'
local notes = require 'limiter.notes'
local rows = {}

--[[
  Opens the state of a key under one limit. Returns an object with
    reset()                          ms until the state of the key no longer matters
    ahead(limit, units, cost)        when a cost that waits in line fits behind others: see ahead.of_row
    grant(limit, cost)               spends what fits; returns remaining and reset
    begin(lasts)                     begins a fixed window that ends in so many ms, unless one runs
    charge(cost)                     spends even if it does not fit
    refund(limit, cost, note_key)    gives back the newest units
    settle(units, receipt, note_key) gives back own units of a decision or grant, dated when they were charged
    look(cost)                       retry, remaining and reset of a request, which spends nothing
    room(ttl)                        how many units may be sold as a lease of `ttl` ms, and how long it may last
    buy(units, ttl, note_key)        sells that many units
    save()                           writes the changes
  `limit` may be that of an older configuration, under which a waiter has asked or a decision was made: the key never
  lives shorter than it was to. A row from the future is from before the server's clock was set back, or from a server
  whose clock is ahead: it is moved to now, and save() writes that, unless `read_only`. A value of another form counts
  as unused.
]]
function rows.open(limit, key, now, read_only)
  local functions = arithmetic.of(limit.algorithm)
  local value = redis.pcall('GET', key)
  local at, count, other, is_changed = nil, 0, 0, false
  if value and #value == 24 then
    at, count, other = struct.unpack('<ddd', value)
  elseif value then
    foreign.check(value)
  end

  local function set_row(next_at, next_count, next_other)
    if not next_at then return false end
    at, count, other, is_changed = next_at, next_count, next_other, true
    return true
  end
  local function reset()
    -- At quota 0 a bucket keeps its level for the limit after it.
    if functions.is_bucket and limit.quota == 0 and count > 0 then return limit.window end
    local _, _, ms = functions.measure(limit, now, 0, at, count, other)
    return ms
  end
  local left = at and math.max(0, redis.call('PTTL', key)) or 0
  if at and not read_only then
    local _, _, _, _, next_at, next_count, next_other = functions.measure(limit, now, 0, at, count, other)
    if next_at ~= at or next_count ~= count or next_other ~= other then set_row(next_at, next_count, next_other) end
    -- Under a slower limit the state matters for longer.
    if left < reset() then is_changed = true end
  end

  local state = { reset = reset }
  function state.ahead(asked_limit, units, cost)
    return ahead.of_row(asked_limit, now, units, cost, at, count, other, true)
  end
  function state.grant(asked_limit, cost)
    local _, remaining, ms, _, next_at, next_count, next_other =
      functions.measure(asked_limit, now, cost, at, count, other)
    set_row(next_at, next_count, next_other)
    return remaining, ms
  end
  function state.look(cost) return functions.measure(limit, now, cost, at, count, other) end
  function state.room(ttl) return functions.room(limit, now, ttl, at, count, other) end
  function state.buy(units, ttl, note_key)
    if functions.notes_leases then
      local note = notes.open(note_key)
      note.leased_until = math.max(note.leased_until or 0, now + ttl)
      notes.save(note_key, note, limit)
    end
    set_row(functions.charge(limit, now, units, functions.raised(limit, now, ttl, at, count, other)))
  end
  function state.begin(lasts)
    if reset() == 0 then set_row(now - limit.window + lasts, 0, 0) end
  end
  function state.charge(cost) set_row(functions.charge(limit, now, cost, at, count, other)) end
  function state.refund(asked_limit, cost, note_key)
    local note = notes.open(note_key)
    if set_row(functions.refund(asked_limit, now, cost, at, count, other, note)) then
      notes.save(note_key, note, asked_limit)
    end
  end
  function state.settle(units, receipt, note_key)
    if not at then return end
    local note = notes.open(note_key)
    if set_row(functions.settle(limit, now, units, receipt, at, count, other, note)) then
      notes.save(note_key, note, limit)
    end
  end
  function state.save()
    if not is_changed then return end
    local row, matters = struct.pack('<ddd', at, count, other), reset()
    if left < matters + 3000 then
      redis.call('SET', key, row, 'PX', lifetimes.of(matters, left))
    else
      redis.call('SETRANGE', key, '0', row)
    end
  end
  return state
end

return rows
