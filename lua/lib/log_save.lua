--[[ Writes the spent units of a log, and a lifetime if the key has none that suffices: see expiry. Nothing of it is in the future. ]]
-- @include log_pack
local function log_save(key, log, window, expires_at)
  if log.rubbish then redis.call('DEL', key) end
  local entry = log_pack(log.newest, log.total)
  local left = log.stored and redis.call('PTTL', key)
  if not log.stored then
    redis.call('RPUSH', key, log_pack(0, log.gone), entry)
  elseif log.stored == log.newest then
    redis.call('LSET', key, '-1', entry)
  else
    redis.call('RPUSH', key, entry)
  end
  local expire_at = expires_at(window, left)
  if expire_at then redis.call('PEXPIREAT', key, expire_at) end
  log.stored, log.rubbish = log.newest, nil
end
