--[[
  Opens the log of a sliding window: a list of entries with rising times and totals. The first entry no longer counts, but contains the total
  before the second. Fields of the result:
    gone    total before the oldest entry that counts       total     total of all that was ever spent
    first   index of that oldest entry (nil: 1)              newest    time of the newest
    oldest, oldest_total   of the entry at `first`          stored    time of the newest as stored (nil: nothing is)
  Times in the future, other than those of leases, are moved to now, in the list too if `writable`; expired entries are then dropped. While a
  lease lasts, newest is in the future. Returns { err } for a key that holds something else.
]]
-- @include log_pack
-- @include log_unpack
-- @include log_search
-- @include log_counts_from
-- @include log_repair_clock
local function log_open(key, window, now, writable)
  local head = redis.pcall('LRANGE', key, '0', '1')
  if head.err then return head end
  if not head[1] then return { gone = 0, total = 0 } end
  if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
    return { err = 'WRONGTYPE the key holds a list that is not a limit\'s' }
  end
  local _, gone = log_unpack(head[1])
  local log = { gone = gone, first = 1 }
  log.oldest, log.oldest_total = log_unpack(head[2])
  local last = redis.call('LINDEX', key, '-1')
  if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\'s' } end
  local newest, total, ttl = log_unpack(last)
  log.newest, log.total = log_counts_from(newest, ttl, now), total
  if log.newest ~= newest and writable then
    log_repair_clock(key, now, window)
    log.oldest, log.oldest_total = log_unpack(redis.call('LINDEX', key, '1'))
  end
  log.stored = log.newest
  if now - log.newest >= window then return { gone = 0, total = 0, rubbish = true } end
  if now - log.oldest >= window then
    local length = redis.call('LLEN', key)
    local passes = function(at) return now - at < window end
    -- Usually one or a few entries have expired since the last access.
    local reach = math.min(4, length)
    local first, at, total = log_search(key, 2, reach, passes)
    if not at then first, at, total = log_search(key, reach, length, passes) end
    local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
    log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
    if writable then
      redis.call('LTRIM', key, first - 1, '-1')
      log.first = 1
    end
  end
  return log
end
