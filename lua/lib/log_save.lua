--[[ Writes what log_spend noted, with a lifetime. ]]
-- @include log_pack
local function log_save(key, log, ttl)
  if log.rubbish then redis.call('DEL', key) end
  local entry = log_pack(log.newest, log.total)
  if not log.stored then
    redis.call('RPUSH', key, log_pack(log.newest, log.gone), entry)
  elseif log.stored == log.newest then
    redis.call('LSET', key, -1, entry)
  else
    redis.call('RPUSH', key, entry)
  end
  redis.call('PEXPIRE', key, ttl)
end
