-- Limits that are changed while the service runs.
local live_changes = {}

-- The epoch and the number of the newest change; '' and 0 before the first one.
function live_changes.state(key)
  local found = redis.call('HMGET', key, 'epoch', 'seq')
  return { epoch = found[1] or '', seq = tonumber(found[2] or 0) }
end

-- Removes temporary limits that have ended, at most 100 in one call.
function live_changes.forget_ended(temporary, ends, now)
  local ended = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 100)
  if #ended == 0 then return end
  redis.call('HDEL', temporary, unpack(ended))
  redis.call('ZREM', ends, unpack(ended))
end

return live_changes
