--[[
  Removes at most `cost` units from a log that log_open opened for writing, oldest first. `expire_at`: the moment at which the key may expire, ms.
]]
-- @include log_pack
-- @include log_search
local function log_refund_oldest(key, log, cost, expire_at)
  if not log.newest or cost == 0 then return end
  local gone = math.min(log.total, log.gone + cost)
  if gone == log.total then
    redis.call('DEL', key)
    return
  end
  local index = log_search(key, 1, redis.call('LLEN', key), function(_, total) return total > gone end)
  redis.call('LTRIM', key, index - 1, '-1')
  redis.call('LSET', key, '0', log_pack(0, gone))
  redis.call('PEXPIREAT', key, expire_at)
end
