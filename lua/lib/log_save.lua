--[[
  Writes the spent units of a log, with a lifetime: `expire_at` is the moment at which the key expires, as text, or false if the key
  keeps its lifetime. `calm`: see steps/spend_row.
]]
-- @include log_pack
-- @include log_flush
local function log_save(key, log, expire_at, calm)
  if log.inserted then return log_flush(key, log) end
  if log.rubbish then redis.call('DEL', key) end
  local entry = log_pack(log.newest, log.total)
  local expires = calm and expire_at and tonumber(expire_at) or 0
  if not log.stored then
    redis.call('RPUSH', key, log_pack(expires, log.gone), entry)
  elseif log.stored == log.newest then
    redis.call('LSET', key, '-1', entry)
  else
    redis.call('RPUSH', key, entry)
  end
  if expire_at then
    if log.stored and log.expires ~= expires then redis.call('LSET', key, '0', log_pack(expires, log.gone)) end
    redis.call('PEXPIREAT', key, expire_at)
    log.expires = expires
  end
  log.stored, log.rubbish = log.newest, nil
end
