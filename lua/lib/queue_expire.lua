-- @include queue_record
-- @include queue_score
-- @include queue_bury
--[[
  Takes back at most `most` messages whose visibility has ended. They are due again from the end of their visibility on; after their last attempt they become
  dead letters. Returns the number of new dead letters.
]]
local function queue_expire(keys, now, most)
  local rows = redis.call('ZRANGE', keys.unacked, '-inf', now, 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
  if #rows == 0 then return 0 end
  local members, ids = {}, {}
  for i = 1, #rows, 2 do
    members[#members + 1] = rows[i]
    ids[#ids + 1] = string.sub(rows[i], 28)
  end
  redis.call('ZREM', keys.unacked, unpack(members))
  local texts = redis.call('HMGET', keys.messages, unpack(ids))
  local places, tries, buried = {}, {}, 0
  for i, member in ipairs(members) do
    local text, id = texts[i], ids[i]
    if text then
      local attempt = string.sub(member, 21, 27)
      local record = queue_record(text)
      if tonumber(attempt) >= record.max then
        queue_bury(keys, now, id, text, tonumber(attempt), 'not acknowledged in time')
        buried = buried + 1
      else
        places[#places + 1] = queue_score(record.priority, tonumber(rows[2 * i]))
        places[#places + 1] = member
        tries[#tries + 1] = id
        tries[#tries + 1] = attempt
      end
    end
  end
  if #places == 0 then return buried end
  redis.call('ZADD', keys.delayed, unpack(places))
  redis.call('HSET', keys.tries, unpack(tries))
  return buried
end
