--[[
  Takes at most `cost` units back out of a log that log_open opened for writing, newest first. expire_at is the text of the moment
  at which the key may go.
]]
-- @include log_pack
-- @include log_search
local function log_refund(key, log, cost, expire_at)
  if not log.newest or cost == 0 then return end
  local total = math.max(log.gone, log.total - cost)
  if total == log.gone then
    redis.call('DEL', key)
    return
  end
  -- The entry that reached this total becomes the newest; what came after it is forgotten.
  local index, at, reached = log_search(key, 1, redis.call('LLEN', key), function(_, sum) return sum >= total end)
  redis.call('LTRIM', key, '0', index)
  if reached > total then redis.call('LSET', key, '-1', log_pack(at, total)) end
  redis.call('PEXPIREAT', key, expire_at)
end
