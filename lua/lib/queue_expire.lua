-- @include queue_record
-- @include queue_score
-- @include queue_bury
--[[
  Takes back at most `most` messages whose visibility has ended. They are due again from the end of their visibility on; after their last attempt they become
  dead letters, and after the end of their ttl they are forgotten. Returns the number of new dead letters, and whether messages have gone.
]]
local function queue_expire(keys, now, most)
  local rows = redis.call('ZRANGE', keys.unacked, '-inf', now, 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
  if #rows == 0 then return 0, false end
  local ids = {}
  for i = 1, #rows, 2 do
    ids[#ids + 1] = string.sub(rows[i], 35)
  end
  local texts, count = queue_texts(keys.messages, ids)
  local members, places, tries, buried, gone = {}, {}, {}, 0, false
  for i = 1, count do
    local member, text, id = rows[2 * i - 1], texts[i], ids[i]
    members[i] = member
    if text then
      local _, _, attempts = queue_parts(member)
      local record = queue_record(text)
      if attempts >= record.max then
        queue_bury(keys, now, id, text, attempts, 'not acknowledged in time')
        buried = buried + 1
      elseif queue_outlived(text, now) then
        queue_forget(keys, id)
        gone = true
      else
        places[#places + 1] = queue_score(record.priority, tonumber(rows[2 * i]))
        places[#places + 1] = member
        tries[#tries + 1] = id
        tries[#tries + 1] = string.sub(member, 21, 34)
      end
    end
  end
  redis.call('ZREM', keys.unacked, unpack(members))
  gone = gone or buried > 0
  if #places == 0 then return buried, gone end
  redis.call('ZADD', keys.delayed, unpack(places))
  redis.call('HSET', keys.tries, unpack(tries))
  return buried, gone
end
