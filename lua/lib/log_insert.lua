--[[
  Adds `units` to a log from log_open, and writes it. Their moment is now, or the end of a lease of `ttl` ms; it may lie before the newest entries.
  `expire_at`: the moment at which the key may expire, ms.
]]
-- @include log_pack
-- @include log_unpack
-- @include log_rebase
local function log_insert(key, log, at, units, ttl, expire_at)
  if log.rubbish then redis.call('DEL', key) end
  if log.total + units > 9007199254740991 then log_rebase(key, log) end
  if not log.stored then redis.call('RPUSH', key, log_pack(0, log.gone)) end
  local later, before = {}, log.gone
  local last = redis.call('RPOP', key)
  local last_at, last_total, last_ttl = log_unpack(last)
  -- The first entry no longer counts, but stores the total before the others.
  while last_at > at do
    later[#later + 1] = { last_at, last_total, last_ttl }
    last = redis.call('RPOP', key)
    last_at, last_total, last_ttl = log_unpack(last)
  end
  before = last_total
  local is_head = redis.call('EXISTS', key) == 0
  if is_head or last_at ~= at then redis.call('RPUSH', key, last) end
  local written = { log_pack(at, before + units, ttl) }
  for i = #later, 1, -1 do written[#written + 1] = log_pack(later[i][1], later[i][2] + units, later[i][3]) end
  redis.call('RPUSH', key, unpack(written))
  redis.call('PEXPIREAT', key, expire_at)
  log.total, log.rubbish = log.total + units, nil
  if not log.newest or at > log.newest then log.newest = at end
  if not log.oldest or at < log.oldest then
    log.oldest, log.oldest_total = at, before + units
  elseif at == log.oldest then
    log.oldest_total = before + units
  end
  log.stored = log.newest
end
