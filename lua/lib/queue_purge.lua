-- @include queue_drop
--[[
  Removes at most `most` waiting messages whose ttl has ended. Returns true if there may be more. A message that is being delivered is dropped by its next
  fetch instead.
]]
local function queue_purge(keys, now, most)
  local ids = redis.call('ZRANGE', keys.ttls, '-inf', now, 'BYSCORE', 'LIMIT', '0', most)
  for _, id in ipairs(ids) do
    local text = redis.call('HGET', keys.messages, id)
    if not (text and queue_drop(keys, id, text)) then redis.call('ZREM', keys.ttls, id) end
  end
  return #ids == most
end
