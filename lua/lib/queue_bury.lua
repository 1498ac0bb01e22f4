--[[ Makes a dead letter of a message that is in neither `delayed` nor `unacked` any more. ]]
local function queue_bury(keys, now, id, text, attempts, reason)
  redis.call('HSET', keys.graves, id, cmsgpack.pack({ attempts, reason, text }))
  redis.call('ZADD', keys.dead, now, id)
  redis.call('HDEL', keys.messages, id)
  redis.call('HDEL', keys.tries, id)
  redis.call('ZREM', keys.ttls, id)
end
