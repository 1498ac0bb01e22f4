-- The state of a key whose limit is a sliding window, as an object like that of rows.open. Changes are written at once.
local lifetimes = require 'redis.lifetimes'
local logs = require 'limiter.logs'
local log_repairs = require 'limiter.log_repairs'
local sliding_window = require 'limiter.algorithms.sliding_window'
local log_states = {}

--- Adds a cost to an opened log now, whether it fits or not, and writes it.
function log_states.spend(key, log, now, window, cost)
  if logs.spend(key, log, now, window, cost) then logs.save(key, log, window) end
end

--[[
  Removes at most `cost` units from a log that was opened for writing, oldest first. `lives_ms`: for how long the key is
  to live.
]]
function log_states.refund_oldest(key, log, cost, lives_ms)
  if not log.newest or cost == 0 then return end
  local expired_total = math.min(log.total, log.expired_total + cost)
  if expired_total == log.total then
    redis.call('DEL', key)
    return
  end
  local length = redis.call('LLEN', key)
  local index = logs.search(key, 1, length, function(_, total) return total > expired_total end)
  redis.call('LTRIM', key, index - 1, '-1')
  redis.call('LSET', key, '0', logs.pack(0, expired_total))
  redis.call('PEXPIRE', key, lives_ms)
end

-- In place.
function log_states.reverse(list)
  local size = #list
  for i = 1, math.floor(size / 2) do list[i], list[size + 1 - i] = list[size + 1 - i], list[i] end
end

--[[
  Removes at most `units` of a decision's own units from an opened log: from the entry of the moment when the decision
  was charged. Rewrites the running totals on the shorter side of that entry. If both sides have more than 1000 entries,
  that would take too long: then removes as many of the oldest units instead, which is safe, but some units become free
  later than they could. Returns how many it has removed.
]]
function log_states.settle(limit, now, units, receipt, key, log)
  local charged_at = receipt.charged_at
  if not log.newest or now - charged_at >= limit.window then return 0 end
  local length = redis.call('LLEN', key)
  local index, at, total = logs.search(key, 1, length, function(entry_at) return entry_at >= charged_at end)
  if at ~= charged_at then return 0 end
  local _, before = logs.unpack(redis.call('LINDEX', key, index - 1))
  local earlier, later = index - 1, length - 1 - index
  local counted = total - before
  local back = math.min(units, counted)
  local is_whole = back == counted
  if math.min(earlier, later) > 1000 then
    local matters = math.max(0, log.newest - now) + limit.window
    log_states.refund_oldest(key, log, back, lifetimes.of(matters, 0))
    return back
  end
  if is_whole and length == 2 then
    redis.call('DEL', key)
    return back
  end
  local shift, first = -back, index
  local entries
  if later <= earlier then
    entries = redis.call('RPOP', key, later + 1)
    -- The entries come newest first.
    log_states.reverse(entries)
  else
    entries, shift, first = redis.call('LPOP', key, index + 1), back, 0
  end
  local written = {}
  for i = 1, #entries do
    local entry_at, entry_total, ttl = logs.unpack(entries[i])
    if first + i - 1 ~= index then
      written[#written + 1] = logs.pack(entry_at, entry_total + shift, ttl)
    elseif not is_whole then
      written[#written + 1] = logs.pack(entry_at, shift < 0 and entry_total + shift or entry_total, ttl)
    end
  end
  if shift < 0 then
    if #written > 0 then redis.call('RPUSH', key, unpack(written)) end
  else
    log_states.reverse(written)
    redis.call('LPUSH', key, unpack(written))
  end
  return back
end

--- Opens the state of a key: see rows.open. A refund gives back the oldest units; `settle` returns how many it has
--- given back.
function log_states.open(limit, key, now, read_only)
  local quota, window = limit.quota, limit.window
  local log = logs.open(key, window, now, not read_only)
  local function reset() return log.newest and log.newest - now + window or 0 end
  local function left(of) return math.max(0, of - (log.total - log.expired_total)) end

  local state = { reset = reset }
  function state.ahead(asked_limit, units, cost)
    return sliding_window.ahead(asked_limit.quota, asked_limit.window, now, units, cost, key, log)
  end
  function state.grant(asked_limit, cost)
    log_states.spend(key, log, now, window, cost)
    return left(asked_limit.quota), reset()
  end
  function state.look(cost) return sliding_window.measure(quota, window, now, cost, key, log) end
  function state.room(ttl) return left(quota), ttl end
  function state.buy(units, ttl)
    local matters = math.max(reset(), window + ttl)
    log_repairs.insert(key, log, now + ttl, units, ttl, lifetimes.of(matters, 0))
  end
  function state.charge(cost) log_states.spend(key, log, now, window, cost) end
  function state.refund(_, cost)
    log_states.refund_oldest(key, log, cost, lifetimes.of(reset(), 0))
    log = logs.open(key, window, now, true)
  end
  function state.settle(units, receipt)
    local back = log_states.settle(limit, now, units, receipt, key, log)
    log = logs.open(key, window, now, not read_only)
    return back
  end
  function state.save() end
  return state
end

return log_states
