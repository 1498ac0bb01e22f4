--[[
  Opens the log of a sliding window: a list of entries with rising times and totals. The first entry no longer counts,
  but contains the total before the second. Fields of the result:
    expired_total  total before the oldest entry that counts       total   total of all that was ever spent
    first          index of that oldest entry (nil: 1)             newest  time of the newest
    oldest, oldest_total   of the entry at `first` stored_newest time of the newest as stored (nil: nothing is)
    all_expired    true if the key holds nothing else: whoever writes deletes it first
  Times in the future, other than those of leases, are moved to now, in the list too if `writable`; expired entries are
  then dropped. While a lease lasts, newest is in the future. Returns { err } for a key that holds something else.
]]
local function log_open(key, window, now, writable)
  local head = redis.pcall('LRANGE', key, '0', '1')
  if head.err then return head end
  if not head[1] then return { expired_total = 0, total = 0 } end
  if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
    return { err = 'WRONGTYPE the key holds a list that is not a limit\'s' }
  end
  local _, expired_total = log_unpack(head[1])
  local log = { expired_total = expired_total, first = 1 }
  log.oldest, log.oldest_total = log_unpack(head[2])
  local last = redis.call('LINDEX', key, '-1')
  if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\'s' } end
  local newest, total, ttl = log_unpack(last)
  log.newest, log.total = log_counts_from(newest, ttl, now), total
  if log.newest ~= newest and writable then
    log_repair_clock(key, now, window)
    log.oldest, log.oldest_total = log_unpack(redis.call('LINDEX', key, '1'))
    -- Of a lease, if the newest entry was not: that one has moved before it.
    log.newest = log_unpack(redis.call('LINDEX', key, '-1'))
  end
  log.stored_newest = log.newest
  if now - log.newest >= window then return { expired_total = 0, total = 0, all_expired = true } end
  if now - log.oldest >= window then
    local length = redis.call('LLEN', key)
    local passes = function(at) return now - at < window end
    -- Usually one or a few entries have expired since the last access.
    local reach = math.min(4, length)
    local first, at, total = log_search(key, 2, reach, passes)
    if not at then first, at, total = log_search(key, reach, length, passes) end
    local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
    log.expired_total, log.first, log.oldest, log.oldest_total = before, first, at, total
    if writable then
      redis.call('LTRIM', key, first - 1, '-1')
      log.first = 1
    end
  end
  return log
end

--[[
  Packs an entry of a log: by `at` ms, `total` units had been spent. Six bytes of time, then as few bytes of the total
  as it needs. `ttl`: the units belong to a lease of that many ms. They count as spent when the lease ends, so the entry
  may lie up to `ttl` in the future.
]]
local function log_pack(at, total, ttl)
  if ttl then return struct.pack('>I6I7I4', at, total, ttl) end
  if total < 65536 then return struct.pack('>I6I2', at, total) end
  if total < 16777216 then return struct.pack('>I6I3', at, total) end
  if total < 4294967296 then return struct.pack('>I6I4', at, total) end
  return struct.pack('>I6I7', at, total)
end

--[[ Reads an entry that log_pack wrote: at, total, and of a lease its ttl. ]]
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7', [17] = '>I6I7I4' }
local function log_unpack(entry)
  local at, total, third = struct.unpack(log_formats[#entry], entry)
  return at, total, #entry == 17 and third or nil
end

--[[
  Returns the first index in [low, high) of the list whose entry passes test(at, total), or high if none does; and the
  entry's at and total. All entries before that index must fail, and all from there on must pass.
]]
local function log_search(key, low, high, test)
  local found_at, found_total
  while low < high do
    local middle = math.floor((low + high) / 2)
    local at, total = log_unpack(redis.call('LINDEX', key, middle))
    if test(at, total) then
      high, found_at, found_total = middle, at, total
    else
      low = middle + 1
    end
  end
  return high, found_at, found_total
end

--[[
  Returns the moment from which an entry of a log counts for a window. That is its own moment `at`. If `at` is in the
  future, the server's clock was set back: then now, or for a lease (`ttl`) at most the end of a lease that is sold now.
]]
local function log_counts_from(at, ttl, now)
  if at <= now then return at end
  return ttl and math.min(at, now + ttl) or now
end

--[[
  Repairs a log after the server's clock was set back: moves the entries in the future. Entries of leases move to the
  end of a lease that is sold now, unless they end earlier; all others move to now. What then stands at one moment
  becomes one entry.
]]
local function log_repair_clock(key, now, window)
  local from = log_search(key, 1, redis.call('LLEN', key), function(at) return at >= now end)
  local _, total = log_unpack(redis.call('LINDEX', key, from - 1))
  local before, moved, leases, longest = total, 0, {}, 0
  -- The first entry no longer counts, but log_insert looks at its time.
  local _, expired_total = log_unpack(redis.call('LINDEX', key, '0'))
  redis.call('LSET', key, '0', log_pack(0, expired_total))
  for _, entry in ipairs(redis.call('LRANGE', key, from, '-1')) do
    local at, until_then, ttl = log_unpack(entry)
    if ttl and at > now then
      leases[#leases + 1] = { log_counts_from(at, ttl, now), until_then - before, ttl }
      longest = math.max(longest, ttl)
    else
      moved = moved + until_then - before
    end
    before = until_then
  end
  redis.call('LTRIM', key, '0', from - 1)
  if moved > 0 then
    total = total + moved
    redis.call('RPUSH', key, log_pack(now, total))
  end
  table.sort(leases, function(a, b) return a[1] < b[1] end)
  for i, lease in ipairs(leases) do
    total = total + lease[2]
    local after = leases[i + 1]
    if not after or after[1] ~= lease[1] then redis.call('RPUSH', key, log_pack(lease[1], total, lease[3])) end
  end
  redis.call('PEXPIRE', key, window + longest + 5000)
end

--[[
  Reduces the totals of a log to the units that still count, before they exceed the integers that a float holds exactly:
  once in 2^53 units. Units that spend_log has spent but not written are kept. The key loses its lifetime, which the
  next write sets.
]]
local function log_rebase(key, log)
  local expired_total = log.expired_total
  if log.stored_newest then
    local entries = redis.call('LRANGE', key, '0', '-1')
    redis.call('DEL', key)
    redis.call('RPUSH', key, log_pack(0, 0))
    for i = 2, #entries do
      local at, total, ttl = log_unpack(entries[i])
      redis.call('RPUSH', key, log_pack(at, total - expired_total, ttl))
    end
  end
  log.expired_total, log.total, log.rebased = 0, log.total - expired_total, true
  if log.oldest then log.oldest_total = log.oldest_total - expired_total end
end

--[[
  Exact sliding window over a log from log_open. Returns retry (0 allowed, -1 never), remaining, reset, delay. Spends
  nothing: see spend_log.
]]
local function sliding_window(limit, now, cost, key, log)
  local spent = log.total - log.expired_total
  local reset = log.newest and log.newest - now + limit.window or 0
  if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
  if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, math.max(reset, limit.window), 0 end
  if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
  -- The cost fits when the units above the quota have expired: when the entry with the last of them expires.
  local enough = log.total - (limit.quota - cost)
  local at = log.oldest
  if log.oldest_total < enough then
    local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
    at = found or log.newest
  end
  -- An entry later than the newest possible one means that the clock was set back.
  return math.min(at, log.newest) - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end

--[[ When `cost` units fit a sliding window behind `ahead` units, in ms: 0 now, -1 never. See functions_of. ]]
local function log_ahead(limit, now, ahead, cost, key, log)
  local units, wait = whole_windows(limit, ahead, cost)
  if not units then return -1 end
  return wait + sliding_window(limit, now, units, key, log)
end

--[[
  Writes the spent units of a log, and a lifetime if the key has none that suffices: see expiry. Nothing of it is in the
  future. `second`: the beginning of the present second by the server's clock, whose entries have seen to the lifetime
  (see spend_row); false: the lifetime is asked for in any case.
]]
local function log_save(key, log, window, expires_at, second)
  if log.all_expired then redis.call('DEL', key) end
  local entry = log_pack(log.newest, log.total)
  local left = log.stored_newest and math.huge
  if left and not (second and log.stored_newest >= second and not log.rebased) then left = redis.call('PTTL', key) end
  if not log.stored_newest then
    redis.call('RPUSH', key, log_pack(0, log.expired_total), entry)
  elseif log.stored_newest == log.newest then
    redis.call('LSET', key, '-1', entry)
  else
    redis.call('RPUSH', key, entry)
  end
  local expire_at = expires_at(window, left)
  if expire_at then redis.call('PEXPIREAT', key, expire_at) end
  log.stored_newest, log.all_expired = log.newest, nil
end

--[[
  Adds `units` to a log from log_open, and writes it. Their moment is now, or the end of a lease of `ttl` ms; it may lie
  before the newest entries. `expire_at`: the moment at which the key may expire, ms.
]]
local function log_insert(key, log, at, units, ttl, expire_at)
  if log.all_expired then redis.call('DEL', key) end
  if log.total + units > 9007199254740991 then log_rebase(key, log) end
  if not log.stored_newest then redis.call('RPUSH', key, log_pack(0, log.expired_total)) end
  local later, before = {}, log.expired_total
  local last = redis.call('RPOP', key)
  local last_at, last_total, last_ttl = log_unpack(last)
  -- The first entry no longer counts, but stores the total before the others.
  while last_at > at do
    later[#later + 1] = { last_at, last_total, last_ttl }
    last = redis.call('RPOP', key)
    last_at, last_total, last_ttl = log_unpack(last)
  end
  before = last_total
  local is_head = redis.call('EXISTS', key) == 0
  if is_head or last_at ~= at then redis.call('RPUSH', key, last) end
  local written = { log_pack(at, before + units, ttl) }
  for i = #later, 1, -1 do written[#written + 1] = log_pack(later[i][1], later[i][2] + units, later[i][3]) end
  redis.call('RPUSH', key, unpack(written))
  redis.call('PEXPIREAT', key, expire_at)
  log.total, log.all_expired = log.total + units, nil
  if not log.newest or at > log.newest then log.newest = at end
  if not log.oldest or at < log.oldest then
    log.oldest, log.oldest_total = at, before + units
  elseif at == log.oldest then
    log.oldest_total = before + units
  end
  log.stored_newest = log.newest
end

--[[ Adds a cost to an opened log now, whether it fits or not, and writes it. `expires_at`: see expiry. ]]
local function log_spend(key, log, now, window, cost, expires_at)
  if log.newest and log.newest > now then
    log_insert(key, log, now, cost, nil, expires_at(log.newest - now + window))
    return
  end
  if log.total + cost > 9007199254740991 then log_rebase(key, log) end
  log.total = math.min(log.total + cost, 9007199254740991)
  log.newest = now
  if not log.oldest or log.oldest == now then log.oldest, log.oldest_total = now, log.total end
  log_save(key, log, window, expires_at)
end

--[[
  Removes at most `cost` units from a log that log_open opened for writing, oldest first. `expire_at`: the moment at
  which the key may expire, ms.
]]
local function log_refund_oldest(key, log, cost, expire_at)
  if not log.newest or cost == 0 then return end
  local expired_total = math.min(log.total, log.expired_total + cost)
  if expired_total == log.total then
    redis.call('DEL', key)
    return
  end
  local index = log_search(key, 1, redis.call('LLEN', key), function(_, total) return total > expired_total end)
  redis.call('LTRIM', key, index - 1, '-1')
  redis.call('LSET', key, '0', log_pack(0, expired_total))
  redis.call('PEXPIREAT', key, expire_at)
end

--[[
  Removes at most `units` of a decision's own units from the log of a sliding window: from the entry of the moment when
  the decision was charged. Rewrites the running totals on the shorter side of that entry. If both sides have more than
  1000 entries, that would take too long: then removes as many of the oldest units instead, which is safe, but some
  units become free later than they could. `log` comes from log_open. Returns how many it has removed.
]]
local function settle_sliding_window(limit, now, units, receipt, key, log, expires_at)
  local charged_at = receipt.charged_at
  if not log.newest or now - charged_at >= limit.window then return 0 end
  local length = redis.call('LLEN', key)
  local index, at, total = log_search(key, 1, length, function(at) return at >= charged_at end)
  if at ~= charged_at then return 0 end
  local _, before = log_unpack(redis.call('LINDEX', key, index - 1))
  local earlier, later = index - 1, length - 1 - index
  local counted = total - before
  local back = math.min(units, counted)
  local whole = back == counted
  if math.min(earlier, later) > 1000 then
    log_refund_oldest(key, log, back, expires_at(math.max(0, log.newest - now) + limit.window))
    return back
  end
  if whole and length == 2 then
    redis.call('DEL', key)
    return back
  end
  local shift, first, entries = -back, index, nil
  if later <= earlier then
    entries = redis.call('RPOP', key, later + 1)
    -- The entries come newest first.
    for i = 1, math.floor(#entries / 2) do
      entries[i], entries[#entries + 1 - i] = entries[#entries + 1 - i], entries[i]
    end
  else
    entries, shift, first = redis.call('LPOP', key, index + 1), back, 0
  end
  local written = {}
  for i = 1, #entries do
    local entry_at, entry_total, ttl = log_unpack(entries[i])
    local place = first + i - 1
    if place ~= index then
      written[#written + 1] = log_pack(entry_at, entry_total + shift, ttl)
    elseif not whole then
      written[#written + 1] = log_pack(entry_at, shift < 0 and entry_total + shift or entry_total, ttl)
    end
  end
  if shift < 0 then
    if #written > 0 then redis.call('RPUSH', key, unpack(written)) end
  else
    for i = 1, math.floor(#written / 2) do
      written[i], written[#written + 1 - i] = written[#written + 1 - i], written[i]
    end
    redis.call('LPUSH', key, unpack(written))
  end
  return back
end

--[[ Returns the same object as row_state, for a log. Changes are written at once, a refund gives back the oldest units,
and `settle` returns how many it has given back. `read_only`: see log_open. ]]
local function log_state(limit, key, now, expires_at, _, read_only)
  local log = log_open(key, limit.window, now, not read_only)
  local function reset() return log.newest and log.newest - now + limit.window or 0 end
  return {
    err = log.err,
    reset = reset,
    ahead = function(asked_limit, ahead, cost) return log_ahead(asked_limit, now, ahead, cost, key, log) end,
    grant = function(asked_limit, cost)
      log_spend(key, log, now, limit.window, cost, expires_at)
      return math.max(0, asked_limit.quota - (log.total - log.expired_total)), reset()
    end,
    look = function(cost) return sliding_window(limit, now, cost, key, log) end,
    room = function(ttl) return math.max(0, limit.quota - (log.total - log.expired_total)), ttl end,
    buy = function(units, ttl)
      log_insert(key, log, now + ttl, units, ttl, expires_at(math.max(reset(), limit.window + ttl)))
    end,
    charge = function(cost) log_spend(key, log, now, limit.window, cost, expires_at) end,
    refund = function(_, cost)
      log_refund_oldest(key, log, cost, expires_at(reset()))
      log = log_open(key, limit.window, now, true)
    end,
    settle = function(units, receipt)
      local back = settle_sliding_window(limit, now, units, receipt, key, log, expires_at)
      log = log_open(key, limit.window, now, not read_only)
      return back
    end,
    save = function() end,
  }
end
