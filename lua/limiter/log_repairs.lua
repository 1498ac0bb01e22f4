-- What few logs need: entries that do not belong to their end, a clock that was set back, totals that grow too large.
local logs = require 'limiter.logs'
local log_repairs = {}

--[[
  Repairs a log after the server's clock was set back: moves the entries in the future. Entries of leases move to the
  end of a lease that is sold now, unless they end earlier; all others move to now. What then stands at one moment
  becomes one entry.
]]
function log_repairs.repair_clock(key, now, window)
  local from = logs.search(key, 1, redis.call('LLEN', key), function(at) return at >= now end)
  local _, total = logs.unpack(redis.call('LINDEX', key, from - 1))
  local before, moved, leases, longest = total, 0, {}, 0
  -- The first entry no longer counts, but insert looks at its time.
  local _, expired_total = logs.unpack(redis.call('LINDEX', key, '0'))
  redis.call('LSET', key, '0', logs.pack(0, expired_total))
  for _, entry in ipairs(redis.call('LRANGE', key, from, '-1')) do
    local at, until_then, ttl = logs.unpack(entry)
    if ttl and at > now then
      leases[#leases + 1] = { logs.counts_from(at, ttl, now), until_then - before, ttl }
      longest = math.max(longest, ttl)
    else
      moved = moved + until_then - before
    end
    before = until_then
  end
  redis.call('LTRIM', key, '0', from - 1)
  if moved > 0 then
    total = total + moved
    redis.call('RPUSH', key, logs.pack(now, total))
  end
  table.sort(leases, function(a, b) return a[1] < b[1] end)
  for i, lease in ipairs(leases) do
    total = total + lease[2]
    local after = leases[i + 1]
    if not after or after[1] ~= lease[1] then redis.call('RPUSH', key, logs.pack(lease[1], total, lease[3])) end
  end
  redis.call('PEXPIRE', key, window + longest + 5000)
end

--[[
  Reduces the totals of a log to the units that still count, before they exceed the integers that a float holds exactly:
  once in 2^53 units. Units that logs.spend has spent but not written are kept. The key loses its lifetime, which the
  next write sets.
]]
function log_repairs.rebase(key, log)
  local expired_total = log.expired_total
  if log.stored_newest then
    local entries = redis.call('LRANGE', key, '0', '-1')
    redis.call('DEL', key)
    redis.call('RPUSH', key, logs.pack(0, 0))
    for i = 2, #entries do
      local at, total, ttl = logs.unpack(entries[i])
      redis.call('RPUSH', key, logs.pack(at, total - expired_total, ttl))
    end
  end
  log.expired_total, log.total = 0, log.total - expired_total
  if log.oldest then log.oldest_total = log.oldest_total - expired_total end
end

--[[
  Adds `units` to an opened log, and writes it. Their moment is now, or the end of a lease of `ttl` ms; it may lie
  before the newest entries. `lives_ms`: for how long the key is to live.
]]
function log_repairs.insert(key, log, at, units, ttl, lives_ms)
  if log.all_expired then redis.call('DEL', key) end
  if log.total + units > 9007199254740991 then log_repairs.rebase(key, log) end
  if not log.stored_newest then redis.call('RPUSH', key, logs.pack(0, log.expired_total)) end
  local later = {}
  local last = redis.call('RPOP', key)
  local last_at, before, last_ttl = logs.unpack(last)
  -- The first entry no longer counts, but stores the total before the others.
  while last_at > at do
    later[#later + 1] = { last_at, before, last_ttl }
    last = redis.call('RPOP', key)
    last_at, before, last_ttl = logs.unpack(last)
  end
  local is_head = redis.call('EXISTS', key) == 0
  if is_head or last_at ~= at then redis.call('RPUSH', key, last) end
  local written = { logs.pack(at, before + units, ttl) }
  for i = #later, 1, -1 do written[#written + 1] = logs.pack(later[i][1], later[i][2] + units, later[i][3]) end
  redis.call('RPUSH', key, unpack(written))
  redis.call('PEXPIRE', key, lives_ms)
  log.total, log.all_expired = log.total + units, nil
  if not log.newest or at > log.newest then log.newest = at end
  if not log.oldest or at < log.oldest then
    log.oldest, log.oldest_total = at, before + units
  elseif at == log.oldest then
    log.oldest_total = before + units
  end
  log.stored_newest = log.newest
end

return log_repairs
