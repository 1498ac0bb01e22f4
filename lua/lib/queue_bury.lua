--[[ Forgets a message that was removed from `delayed` and `unacked`. ]]
local function queue_forget(keys, id)
  redis.call('HDEL', keys.messages, id)
  redis.call('HDEL', keys.tries, id)
  redis.call('ZREM', keys.ttls, id)
end

--[[ Makes a message a dead letter. The caller has removed it from `delayed` and `unacked`. ]]
local function queue_bury(keys, now, id, text, attempts, reason)
  redis.call('HSET', keys.graves, id, cmsgpack.pack({ attempts, reason, text }))
  redis.call('ZADD', keys.dead, now, id)
  queue_forget(keys, id)
end
