-- The index of objects that exist.
local object_index = {}

--[[
  Writes records of objects into the index: see index_note. Their ids and facts are in ARGV from `first` on. Records
  that were not renewed for `life` ms are removed, a few at a time, so that no call takes long. `told`: the facts come
  from a reporter, which knows more ("per") than the objects themselves: then records of the objects do not overwrite
  them.
]]
function object_index.put(keys, first, now, life, most, told)
  local noted, facts, state = keys[1], keys[2], keys[3]
  local changed = false
  for i = first, #ARGV, 2 do
    local known = redis.call('HGET', facts, ARGV[i])
    if known ~= ARGV[i + 1] and (told or not known or not string.find(known, '"per":', 1, true)) then
      redis.call('HSET', facts, ARGV[i], ARGV[i + 1])
      changed = true
    end
    redis.call('ZADD', noted, now, ARGV[i])
  end
  local gone = redis.call('ZRANGEBYSCORE', noted, '-inf', now - life, 'LIMIT', 0, 32)
  local over = redis.call('ZCARD', noted) - #gone - most
  if over > 0 then
    for _, id in ipairs(redis.call('ZRANGE', noted, #gone, #gone + math.min(over, 32) - 1)) do
      gone[#gone + 1] = id
    end
  end
  if #gone > 0 then
    redis.call('ZREM', noted, unpack(gone))
    redis.call('HDEL', facts, unpack(gone))
    changed = true
  end
  if changed then redis.call('HINCRBY', state, 'version', 1) end
  for i = 1, 3 do
    redis.call('PEXPIRE', keys[i], life + 60000)
  end
end

return object_index
