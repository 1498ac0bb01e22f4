--[[ Makes a message a dead letter. The caller has removed it from `delayed` and `unacked`. ]]
local function queue_bury(keys, now, id, text, attempts, reason)
  redis.call('HSET', keys.graves, id, cmsgpack.pack({ attempts, reason, text }))
  redis.call('ZADD', keys.dead, now, id)
  redis.call('HDEL', keys.messages, id)
  redis.call('HDEL', keys.tries, id)
  redis.call('ZREM', keys.ttls, id)
end
