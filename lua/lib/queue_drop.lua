-- @include queue_record
--[[ Removes a waiting message. Returns false and changes nothing if the message is being delivered. ]]
local function queue_drop(keys, id, text)
  local record = queue_record(text)
  local tries = redis.call('HGET', keys.tries, id)
  if redis.call('ZREM', keys.delayed, record.seq .. (tries or QUEUE_UNTRIED) .. id) == 0 then return false end
  redis.call('HDEL', keys.messages, id)
  if tries then redis.call('HDEL', keys.tries, id) end
  if record.ttl > 0 then redis.call('ZREM', keys.ttls, id) end
  return true
end
