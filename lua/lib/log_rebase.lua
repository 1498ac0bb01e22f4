--[[
  Reduces the totals of a log to the units that still count, before they exceed the integers that a float holds exactly: once in 2^53 units. Units that
  steps/spend_log has spent but not written are kept. The key loses its lifetime, which the next write sets.
]]
-- @include log_pack
-- @include log_unpack
local function log_rebase(key, log)
  local gone = log.gone
  if log.stored then
    local entries = redis.call('LRANGE', key, '0', '-1')
    redis.call('DEL', key)
    redis.call('RPUSH', key, log_pack(0, 0))
    for i = 2, #entries do
      local at, total, ttl = log_unpack(entries[i])
      redis.call('RPUSH', key, log_pack(at, total - gone, ttl))
    end
  end
  log.gone, log.total, log.rebased = 0, log.total - gone, true
  if log.oldest then log.oldest_total = log.oldest_total - gone end
end
