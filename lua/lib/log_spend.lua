--[[
  Writes into a log that log_open opened for writing that `cost` is spent at the moment `at`, which is not before the newest entry.
  expire_at is the text of the moment at which the key may go.
]]
-- @include log_pack
-- @include log_rebase
local function log_spend(key, log, at, cost, expire_at)
  if log.rubbish then redis.call('DEL', key) end
  log.rubbish = nil
  if log.total + cost > 9007199254740991 then log_rebase(key, log) end
  log.total = math.min(log.total + cost, 9007199254740991)
  local entry = log_pack(at, log.total)
  if not log.stored then
    redis.call('RPUSH', key, log_pack(0, log.gone), entry)
  elseif log.stored == at then
    redis.call('LSET', key, '-1', entry)
  else
    redis.call('RPUSH', key, entry)
  end
  if not log.oldest then log.oldest, log.first = at, 1 end
  if log.oldest == at then log.oldest_total = log.total end
  log.stored, log.newest = at, at
  redis.call('PEXPIREAT', key, expire_at)
end
