--[[
  Writes the spent units of a log, and a lifetime if the key has none that suffices: see expiry. Nothing of it is in the future. `second`: the beginning of the
  present second by the server's clock, whose entries have seen to the lifetime (see steps/spend_row); false: the lifetime is asked for in any case.
]]
-- @include log_pack
local function log_save(key, log, window, expires_at, second)
  if log.rubbish then redis.call('DEL', key) end
  local entry = log_pack(log.newest, log.total)
  local left = log.stored and math.huge
  if left and not (second and log.stored >= second and not log.rebased) then left = redis.call('PTTL', key) end
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
