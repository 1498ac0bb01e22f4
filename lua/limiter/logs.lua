-- States that are a log: exact, of spent units and their times. A list of entries with rising times and totals; the
-- first no longer counts, but contains the total before the second.
local foreign = require 'limiter.foreign'
local lifetimes = require 'redis.lifetimes'
local logs = {}

--[[
  Packs an entry: by `at` ms, `total` units had been spent. Six bytes of time, then as few bytes of the total as it
  needs. `ttl`: the units belong to a lease of that many ms. They count as spent when the lease ends, so the entry may
  lie up to `ttl` in the future.
]]
function logs.pack(at, total, ttl)
  if ttl then return struct.pack('>I6I7I4', at, total, ttl) end
  if total < 65536 then return struct.pack('>I6I2', at, total) end
  if total < 16777216 then return struct.pack('>I6I3', at, total) end
  if total < 4294967296 then return struct.pack('>I6I4', at, total) end
  return struct.pack('>I6I7', at, total)
end

logs.formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7', [17] = '>I6I7I4' }

--- Reads an entry: at, total, and of a lease its ttl.
function logs.unpack(entry)
  local at, total, third = struct.unpack(logs.formats[#entry], entry)
  return at, total, #entry == 17 and third or nil
end

--[[
  Returns the first index in [low, high) of the list whose entry passes test(at, total), or high if none does; and the
  entry's at and total. All entries before that index must fail, and all from there on must pass.
]]
function logs.search(key, low, high, test)
  local found_at, found_total
  while low < high do
    local middle = math.floor((low + high) / 2)
    local at, total = logs.unpack(redis.call('LINDEX', key, middle))
    if test(at, total) then
      high, found_at, found_total = middle, at, total
    else
      low = middle + 1
    end
  end
  return high, found_at, found_total
end

--[[
  Returns the moment from which an entry counts for a window. That is its own moment `at`. If `at` is in the future, the
  server's clock was set back: then now, or for a lease (`ttl`) at most the end of a lease that is sold now.
]]
function logs.counts_from(at, ttl, now)
  if at <= now then return at end
  return ttl and math.min(at, now + ttl) or now
end

--[[
  Opens the log of a key. Fields of the result:
    expired_total  total before the oldest entry that counts       total   total of all that was ever spent
    first          index of that oldest entry (nil: 1)             newest  time of the newest
    oldest, oldest_total   of the entry at `first`   stored_newest   time of the newest as stored (nil: nothing is)
    all_expired    true if the key holds nothing that counts: whoever writes deletes it first
  Times in the future, other than those of leases, are moved to now, in the list too if `writable`; expired entries are
  then dropped. While a lease lasts, newest is in the future. A value of somebody else counts as unused.
]]
function logs.open(key, window, now, writable)
  local head = redis.pcall('LRANGE', key, '0', '1')
  foreign.check(head)
  local last = head[2] and redis.call('LINDEX', key, '-1')
  if not last or not logs.formats[#head[1]] or not logs.formats[#head[2]] or not logs.formats[#last] then
    return { expired_total = 0, total = 0, all_expired = head.err or head[1] }
  end
  local _, expired_total = logs.unpack(head[1])
  local log = { expired_total = expired_total, first = 1 }
  log.oldest, log.oldest_total = logs.unpack(head[2])
  local newest, spent, ttl = logs.unpack(last)
  log.newest, log.total = logs.counts_from(newest, ttl, now), spent
  if log.newest ~= newest and writable then
    local log_repairs = require 'limiter.log_repairs'
    log_repairs.repair_clock(key, now, window)
    log.oldest, log.oldest_total = logs.unpack(redis.call('LINDEX', key, '1'))
    -- Of a lease, if the newest entry was not: that one has moved before it.
    log.newest = logs.unpack(redis.call('LINDEX', key, '-1'))
  end
  log.stored_newest = log.newest
  if now - log.newest >= window then return { expired_total = 0, total = 0, all_expired = true } end
  if now - log.oldest >= window then
    local length = redis.call('LLEN', key)
    local passes = function(at) return now - at < window end
    -- Usually one or a few entries have expired since the last access.
    local reach = math.min(4, length)
    local first, at, total = logs.search(key, 2, reach, passes)
    if not at then first, at, total = logs.search(key, reach, length, passes) end
    local _, before = logs.unpack(redis.call('LINDEX', key, first - 1))
    log.expired_total, log.first, log.oldest, log.oldest_total = before, first, at, total
    if writable then
      redis.call('LTRIM', key, first - 1, '-1')
      log.first = 1
    end
  end
  return log
end

--- Writes the units that an opened log has spent now, and a lifetime if the key has none that suffices. Nothing of it
--- is in the future.
function logs.save(key, log, window)
  if log.all_expired then redis.call('DEL', key) end
  local entry = logs.pack(log.newest, log.total)
  if not log.stored_newest then
    redis.call('RPUSH', key, logs.pack(0, log.expired_total), entry)
  elseif log.stored_newest == log.newest then
    redis.call('LSET', key, '-1', entry)
  else
    redis.call('RPUSH', key, entry)
  end
  lifetimes.see_to(key, window)
  log.stored_newest, log.all_expired = log.newest, nil
end

--- Adds a cost to an opened log now, whether it fits or not. Where entries of leases lie in the future, it is written
--- at once; else logs.save writes it: then returns true.
function logs.spend(key, log, now, window, cost)
  if log.newest and log.newest > now then
    local log_repairs = require 'limiter.log_repairs'
    log_repairs.insert(key, log, now, cost, nil, lifetimes.of(log.newest - now + window, 0))
    return false
  end
  if log.total + cost > 9007199254740991 then
    local log_repairs = require 'limiter.log_repairs'
    log_repairs.rebase(key, log)
  end
  log.total = math.min(log.total + cost, 9007199254740991)
  log.newest = now
  -- The oldest entry is also the newest: it grows.
  if not log.oldest or log.oldest == now then log.oldest, log.oldest_total = now, log.total end
  return true
end

return logs
