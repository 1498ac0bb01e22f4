--[[
  Decides a batch under one limit whose state is a log, that is a sliding window, in order, all at the same instant.

  KEYS, ARGV   as of consume_row

  Returns what consume_row returns.
]]
local call, try, pack, read, keys, args = redis.call, redis.pcall, struct.pack, struct.unpack, KEYS, ARGV

local until_ms, now = tonumber(args[1]), nil
if not until_ms and args[1] ~= '' then
  local ends, given = string.match(args[1], '^(%d*)@(.*)$')
  until_ms, now = tonumber(ends), tonumber(given)
end
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
if until_ms and now > until_ms then return { now } end

local quota, window = tonumber(args[2]), tonumber(args[3])
local one_cost = not args[6] and tonumber(args[5] or 1)
local is_obstructed = call('EXISTS', keys[1], keys[2]) > 0

-- A table that need not grow for one request.
local out, size = { now, false, false }, 1
local logs, log_requests
-- The log of `key`. `format`: of all entries that matter; nil: it is no log that the quick way below can decide.
local key, is_changed, format, largest, expired_total, newest, total
for i = 3, #keys + 1 do
  -- A key that comes several times in a row is read once and written once: before the next key, or after the last.
  if keys[i] ~= key or not key then
    if is_changed then
      local entry, left = pack(format, now, total), newest and call('PTTL', key) or 0
      if newest == now then
        call('LSET', key, '-1', entry)
      elseif newest then
        call('RPUSH', key, entry)
      else
        call('RPUSH', key, pack(format, 0, 0), entry)
      end
      if left < window + 3000 then
        local lifetimes = require 'redis.lifetimes'
        call('PEXPIRE', key, lifetimes.of(window, left))
      end
    end
    key = keys[i]
    if not key then break end
    -- What most requests find: no log, or one without expired entries, and without entries of a lease: see logs.lua.
    is_changed, format, largest, expired_total, newest, total = false, nil, 65535, 0, nil, 0
    local head = try('LRANGE', key, '0', '1')
    if head.err then
      local foreign = require 'limiter.foreign'
      foreign.check(head)
    end
    local first, second, _ = head[1], head[2], nil
    if second then
      local last = call('LINDEX', key, '-1')
      local length = #last
      if length == 8 then
        format = '>I6I2'
      elseif length == 9 then
        format, largest = '>I6I3', 16777215
      elseif length == 10 then
        format, largest = '>I6I4', 4294967295
      end
      local oldest
      if format and #first == length and #second == length then
        oldest = read(format, second)
        _, expired_total = read(format, first)
      elseif format then
        -- Totals of another length, from before they grew.
        local entries = require 'limiter.logs'
        if entries.formats[#first] and entries.formats[#second] then
          oldest = entries.unpack(second)
          _, expired_total = entries.unpack(first)
        end
      end
      if oldest then newest, total = read(format, last) end
      if not oldest or newest > now or now - oldest >= window then format = nil end
    elseif not first and not head.err then
      format = '>I6I2'
    end
  end

  local cost = one_cost or tonumber(args[2 + i])
  local blocked_for, units = 0, 0
  if is_obstructed then
    local limits = require 'limiter.limits'
    blocked_for = math.max(0, limits.block_end(keys[1], key) - now)
    units = limits.units_ahead(keys[2], key)
  end

  local retry, remaining, reset = 0, quota - (total - expired_total) - cost, window
  if format and cost > 0 and remaining >= 0 and total + cost <= largest and blocked_for == 0 and units == 0 then
    if until_ms then total, is_changed = total + cost, true end
  else
    if not logs then
      logs = require 'limiter.logs'
      log_requests = require 'limiter.log_requests'
    end
    if is_changed then
      local log = { expired_total = expired_total, stored_newest = newest, newest = now, total = total }
      logs.save(key, log, window)
    end
    local spends = until_ms ~= nil
    retry, remaining, reset = log_requests.decide(key, quota, window, now, cost, spends, blocked_for, units)
    key, is_changed = nil, false
  end
  if retry == 0 and blocked_for == 0 then
    out[size + 1], out[size + 2], size = remaining, reset, size + 2
  else
    if blocked_for > 0 and retry >= 0 then retry = -2 - math.max(retry, blocked_for) end
    out[size + 1], out[size + 2], out[size + 3], size = -1 - remaining, reset, retry, size + 3
  end
end

if size == 3 and until_ms and out[2] >= 0 and not keys[4] then
  local spent, early = quota - out[2], until_ms - now
  if spent > 0 and spent < 32768 and out[3] < 8388608 and early < 16384 then
    return (spent * 8388608 + out[3]) * 16384 + early
  end
end
return out
