-- @include queue_drop
-- @include queue_record
--[[
  Removes at most `most` waiting messages whose ttl has ended. Returns true if there may be more. A message that is being delivered is looked at again in a
  minute; its next fetch drops it.
]]
local QUEUE_AGAIN = 60000
local function queue_purge(keys, now, most)
  local ids = redis.call('ZRANGE', keys.ttls, '-inf', now, 'BYSCORE', 'LIMIT', '0', most)
  if #ids == 0 then return false end
  local texts, count = queue_texts(keys.messages, ids)
  for i = 1, count do
    local id, text = ids[i], texts[i]
    if not text then
      redis.call('ZREM', keys.ttls, id)
    elseif not queue_drop(keys, id, text) then
      redis.call('ZADD', keys.ttls, string.format('%.0f', now + QUEUE_AGAIN), id)
    end
  end
  return count < #ids or count == most
end
