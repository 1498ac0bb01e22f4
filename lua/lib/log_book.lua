--[[
  Writes into an opened log that `cost` will have been spent by `at`, which is now or later, and not before the newest entry. The
  first entry of the list, which counts nothing, tells until when entries in the future are bookings and no clock that ran back.
]]
-- @include log_pack
-- @include log_rebase
local function log_book(key, log, now, at, cost, expire_at)
  if log.rubbish then redis.call('DEL', key) end
  log.rubbish = nil
  if log.total + cost > 9007199254740991 then log_rebase(key, log) end
  log.total = math.min(log.total + cost, 9007199254740991)
  local entry = log_pack(at, log.total)
  local booked = at > now and at or 0
  if not log.stored then
    redis.call('RPUSH', key, log_pack(booked, log.gone), entry)
  else
    if log.stored == at then
      redis.call('LSET', key, '-1', entry)
    else
      redis.call('RPUSH', key, entry)
    end
    redis.call('LSET', key, '0', log_pack(booked, log.gone))
  end
  if not log.oldest then log.oldest, log.first = at, 1 end
  if log.oldest == at then log.oldest_total = log.total end
  log.stored, log.newest, log.booked = at, at, booked
  redis.call('PEXPIREAT', key, expire_at)
end
