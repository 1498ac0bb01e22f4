--[[
  Writes what was spent from a log, with a lifetime: expire_at is the text of the moment at which the key may go; false where the key
  keeps its own.
]]
-- @include log_pack
-- @include log_flush
local function log_save(key, log, expire_at)
  if log.inserted then return log_flush(key, log) end
  if log.rubbish then redis.call('DEL', key) end
  local entry = log_pack(log.newest, log.total)
  if not log.stored then
    redis.call('RPUSH', key, log_pack(0, log.gone), entry)
  elseif log.stored == log.newest then
    redis.call('LSET', key, '-1', entry)
  else
    redis.call('RPUSH', key, entry)
  end
  log.stored, log.rubbish = log.newest, nil
  if expire_at then redis.call('PEXPIREAT', key, expire_at) end
end
