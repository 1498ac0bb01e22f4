-- Removes temporary limits that have ended, at most 100 in one call.
local function live_forget_ended(temporary, ends, now)
  local ended = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 100)
  if #ended == 0 then return end
  redis.call('HDEL', temporary, unpack(ended))
  redis.call('ZREM', ends, unpack(ended))
end
