--[[
  Repairs a log after the server's clock was set back: moves the entries in the future. Entries of leases move to the end of a lease that is sold
  now, unless they end earlier; all others move to now.
]]
-- @include log_pack
-- @include log_unpack
-- @include log_search
-- @include log_counts_from
local function log_repair_clock(key, now, window)
  local from = log_search(key, 1, redis.call('LLEN', key), function(at) return at > now end)
  local _, total = log_unpack(redis.call('LINDEX', key, from - 1))
  local before, moved, leases, longest = total, 0, {}, 0
  for _, entry in ipairs(redis.call('LRANGE', key, from, '-1')) do
    local at, until_then, ttl = log_unpack(entry)
    if ttl then
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
  for _, lease in ipairs(leases) do
    total = total + lease[2]
    redis.call('RPUSH', key, log_pack(lease[1], total, lease[3]))
  end
  redis.call('PEXPIRE', key, window + longest + 5000)
end
