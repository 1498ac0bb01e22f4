-- Delay queues.
local queues = {}

--[[
  The keys of a delay queue, in the order in which every script receives them. A message is in `messages` and in one of
  `delayed` and `unacked`; as a dead letter it is in `dead` and `graves` instead.

  delayed       ZSET member → score of priority and due moment (queues.score); a member -1 says that the queue is paused
  unacked       ZSET member → end of its visibility, ms
  messages      HASH id → record (queues.record)
  tries         HASH id → how often it was taken, and its attempts, 7 digits each; only for messages that wait to be
                taken again
  ttls          ZSET id → end of its ttl, ms; only for messages that have one
  dead          ZSET id → moment of its death, ms
  graves        HASH id → packed: attempts, reason, record
  wake          ZSET that idle processes block on: the one that pops 'first' asks at once, the one that pops 'second' a
                little later
  cleared_mark  STRING: the queue was cleared while deliveries were open
  clock         STRING: see queues.clock. All moments above are by this clock

  A member is the sequence number of the message (20 digits, which grow from push to push), how often it was taken, its
  attempts so far (7 digits each), and its id. So members of equal score are in order of push, and no two deliveries
  ever share one, even if the first was put back uncounted: in `unacked`, it is the receipt.
]]
function queues.keys()
  return {
    delayed = KEYS[1],
    unacked = KEYS[2],
    messages = KEYS[3],
    tries = KEYS[4],
    ttls = KEYS[5],
    dead = KEYS[6],
    graves = KEYS[7],
    wake = KEYS[8],
    cleared_mark = KEYS[9],
    clock = KEYS[10],
  }
end

queues.UNTRIED = '00000000000000'
function queues.member(seq, deliveries, attempts, id)
  return string.format('%s%07d%07d', seq, deliveries % 10000000, attempts) .. id
end
--[[ Returns the sequence number, how often it was taken, its attempts, and its id. ]]
function queues.parts(member)
  return string.sub(member, 1, 20),
    tonumber(string.sub(member, 21, 27)),
    tonumber(string.sub(member, 28, 34)),
    string.sub(member, 35)
end

--[[
  The clock of a queue: the server's, except that it never falls. When the server's clock is set back, or a failover
  leads to a server whose clock is behind, this clock goes on from its last moment. So due messages stay due, and delays
  and visibilities keep their length. It is stored in `clock` while the queue holds messages: its last moment, how far
  it is ahead of the server's clock (both in ms), and the newest stamp, 7 bytes each. Every change of a queue takes a
  stamp, so the newest one is also the version of the queue: see queues.save.
]]
function queues.clock(keys, given)
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local server = given ~= '' and tonumber(given) or math.floor(micros / 1000)
  local stored = redis.call('GET', keys.clock)
  local last, ahead_ms, stamp = 0, 0, 0
  if stored then
    last, ahead_ms, stamp = struct.unpack('>I7I7I7', stored)
  end
  ahead_ms = math.max(ahead_ms, last - server)
  return { stored = stored, now = server + ahead_ms, ahead_ms = ahead_ms, stamp = stamp, micros = micros }
end

--[[ The first 16 digits of sequence numbers. They grow from call to call: the server's time in µs, or one more than the
last. ]]
function queues.stamp(clock)
  clock.stamp = math.max(clock.stamp + 1, clock.micros)
  return string.format('%016.0f', clock.stamp)
end

--[[
  Stores the clock of a queue at the end of a script that may have changed the queue. `removed`: messages may have been
  removed. `added`: some were added, under a new stamp. `same`: what others wait for has not changed. Returns the
  version of the queue: 0 while it holds no messages, else a number that every change raises.
]]
function queues.save(keys, clock, removed, added, same)
  -- The clock is stored if and only if the queue held messages.
  if not (clock.stored or added) then return 0 end
  if removed and redis.call('HLEN', keys.messages) == 0 then
    redis.call('DEL', keys.clock)
    return 0
  end
  if not (added or same) then queues.stamp(clock) end
  local state = struct.pack('>I7I7I7', clock.now, clock.ahead_ms, clock.stamp)
  if state ~= clock.stored then redis.call('SET', keys.clock, state) end
  return clock.stamp
end

--[[ The version of a queue, by the key of its clock. ]]
function queues.version(clock)
  local stored = redis.call('GET', clock)
  return stored and select(3, struct.unpack('>I7I7I7', stored)) or 0
end

--[[
  Reads the head of a record: version (1 character), sequence number (20 digits), priority (1), end of the ttl in ms or
  0 (15), greatest number of attempts (7). Only the process reads the rest. The head of a record of another version
  cannot be read: the message is delivered once more, and the next fetch makes it a dead letter.
]]
queues.VERSION = '1'
function queues.readable(text)
  return string.sub(text, 1, 1) == queues.VERSION
end
function queues.record(text)
  if not queues.readable(text) then return { seq = '', priority = 0, ttl = 0, max = math.huge } end
  return {
    seq = string.sub(text, 2, 21),
    priority = tonumber(string.sub(text, 22, 22)),
    ttl = tonumber(string.sub(text, 23, 37)),
    max = tonumber(string.sub(text, 38, 44)),
  }
end

--[[ Whether the ttl of a message has ended. ]]
function queues.outlived(text, now)
  local ttl = queues.record(text).ttl
  return ttl > 0 and ttl <= now
end

--[[
  Reads the texts of these ids from a hash, in order, until they exceed a megabyte together; at least one. So a call
  stays short however large messages are. Returns the texts (false: none) and their number.
]]
queues.BYTES = 1000000
function queues.texts(key, ids)
  local texts, count, bytes, longest, step = {}, 0, 0, 1, 1
  while count < #ids do
    for _, text in ipairs(redis.call('HMGET', key, unpack(ids, count + 1, math.min(#ids, count + step)))) do
      local length = text and #text or 0
      if count > 0 and bytes + length > queues.BYTES then return texts, count end
      count = count + 1
      texts[count] = text
      bytes = bytes + length
      longest = math.max(longest, length)
    end
    -- Small texts are read many at a time, and large ones hardly in vain.
    step = math.max(1, math.min(step * 4, math.floor((queues.BYTES - bytes) / longest)))
  end
  return texts, count
end

--[[
  Returns the score of a waiting message, as text: nine minus its priority, then its due moment. So messages of one
  priority are together, in the order of their due moments, and higher priorities come first. 2^44 ms: the year 2527.
]]
queues.BAND = 17592186044416
function queues.score(priority, due)
  return string.format('%.0f', (9 - priority) * queues.BAND + math.min(due, queues.BAND - 1))
end

--[[ Forgets a message that was removed from `delayed` and `unacked`. ]]
function queues.forget(keys, id)
  redis.call('HDEL', keys.messages, id)
  redis.call('HDEL', keys.tries, id)
  redis.call('ZREM', keys.ttls, id)
end

--[[
  Makes a message a dead letter. The caller has removed it from `delayed` and `unacked`. `dead_ttl`: for how long dead
  letters are kept, ms; -1 for good.
]]
function queues.bury(keys, now, id, text, attempts, reason, dead_ttl)
  redis.call('HSET', keys.graves, id, cmsgpack.pack({ attempts, reason, text }))
  redis.call('ZADD', keys.dead, now, id)
  if dead_ttl >= 0 then
    -- Then they vanish without a consumer, too.
    for _, key in ipairs({ keys.dead, keys.graves }) do redis.call('PEXPIRE', key, string.format('%.0f', dead_ttl)) end
  end
  queues.forget(keys, id)
end

--[[ Returns the moment at which the oldest dead letter that is still kept has died, as a bound of ZRANGE. ]]
function queues.oldest_dead(now, dead_ttl)
  return dead_ttl < 0 and '-inf' or string.format('(%.0f', now - dead_ttl)
end

--[[ Removes at most `most` dead letters that were kept for long enough. ]]
function queues.drop_dead(keys, now, dead_ttl, most)
  if dead_ttl < 0 then return end
  local last = string.format('%.0f', now - dead_ttl)
  local ids = redis.call('ZRANGE', keys.dead, '-inf', last, 'BYSCORE', 'LIMIT', '0', most)
  if #ids == 0 then return end
  redis.call('ZREM', keys.dead, unpack(ids))
  redis.call('HDEL', keys.graves, unpack(ids))
end

--[[ Removes a waiting message. Returns false and changes nothing if the message is being delivered. ]]
function queues.drop(keys, id, text)
  local record = queues.record(text)
  local tries = redis.call('HGET', keys.tries, id)
  if redis.call('ZREM', keys.delayed, record.seq .. (tries or queues.UNTRIED) .. id) == 0 then return false end
  redis.call('HDEL', keys.messages, id)
  if tries then redis.call('HDEL', keys.tries, id) end
  if record.ttl > 0 then redis.call('ZREM', keys.ttls, id) end
  return true
end

--[[
  Removes at most `most` waiting messages whose ttl has ended: for a push to a full queue. A message that is being
  delivered is looked at again in a minute; its next fetch drops it.
]]
queues.AGAIN = 60000
function queues.purge(keys, now, most)
  local ids = redis.call('ZRANGE', keys.ttls, '-inf', now, 'BYSCORE', 'LIMIT', '0', most)
  if #ids == 0 then return end
  local texts, count = queues.texts(keys.messages, ids)
  for i = 1, count do
    local id, text = ids[i], texts[i]
    if not text then
      redis.call('ZREM', keys.ttls, id)
    elseif not queues.drop(keys, id, text) then
      redis.call('ZADD', keys.ttls, string.format('%.0f', now + queues.AGAIN), id)
    end
  end
end

--[[
  Takes back at most `most` messages whose visibility has ended. They are due again from the end of their visibility on;
  after their last attempt they become dead letters, and after the end of their ttl they are forgotten. Returns the
  number of new dead letters, whether messages have gone, and whether there were any.
]]
function queues.expire(keys, now, most, dead_ttl)
  local rows = redis.call('ZRANGE', keys.unacked, '-inf', now, 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
  if #rows == 0 then return 0, false, false end
  local ids = {}
  for i = 1, #rows, 2 do
    ids[#ids + 1] = string.sub(rows[i], 35)
  end
  local texts, count = queues.texts(keys.messages, ids)
  local members, places, tries, buried, gone = {}, {}, {}, 0, false
  for i = 1, count do
    local member, text, id = rows[2 * i - 1], texts[i], ids[i]
    members[i] = member
    if text then
      local _, _, attempts = queues.parts(member)
      local record = queues.record(text)
      if attempts >= record.max then
        queues.bury(keys, now, id, text, attempts, 'not acknowledged in time', dead_ttl)
        buried = buried + 1
      elseif queues.outlived(text, now) then
        queues.forget(keys, id)
        gone = true
      else
        places[#places + 1] = queues.score(record.priority, tonumber(rows[2 * i]))
        places[#places + 1] = member
        tries[#tries + 1] = id
        tries[#tries + 1] = string.sub(member, 21, 34)
      end
    end
  end
  redis.call('ZREM', keys.unacked, unpack(members))
  gone = gone or buried > 0
  if #places == 0 then return buried, gone, true end
  redis.call('ZADD', keys.delayed, unpack(places))
  redis.call('HSET', keys.tries, unpack(tries))
  return buried, gone, true
end

--[[
  The record of the last fetch of one process, kept for a minute: its number and its messages, for each receipt, due
  moment and visibility in ms. A fetch is repeated if the client lost its connection or gave up waiting; it then gets
  the same messages.
]]
function queues.fetch_number(fetch_record)
  return fetch_record and struct.unpack('>I7', fetch_record) or 0
end
function queues.fetch_taken(fetch_record)
  return cmsgpack.unpack(string.sub(fetch_record, 8))
end
function queues.fetch_keep(key, number, taken)
  redis.call('SET', key, struct.pack('>I7', number) .. cmsgpack.pack(taken), 'PX', '60000')
end

--[[
  Wakes two idle processes: the first asks at once, the second a little later, because the first may be stopped or busy.
  If both are, the others find out when they look, every two seconds. Members that no process pops stay for the next
  process that becomes idle, until their lifetime ends.
]]
function queues.wake(keys)
  redis.call('ZADD', keys.wake, '0', 'first', '1', 'second')
  redis.call('PEXPIRE', keys.wake, '60000')
end

return queues
