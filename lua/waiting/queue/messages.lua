--[[
  Removes a waiting message from a delay queue.

  KEYS[1..11]  the queue: see queue_keys
  KEYS[12], ARGV[1..2]  see run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      id

  Returns 1; 0 if no such message waits
]]
function queue_cancel()
  local keys = queue_keys()
  local given = ARGV[3]
  local id = ARGV[4]

  local reply = run_once(function()
    local text = redis.call('HGET', keys.messages, id)
    if not text then return { 0 }, false end
    local clock = queue_clock(keys, given)
    local outlived = queue_outlived(text, clock.now)
    if not queue_drop(keys, id, text) then return { 0 }, false end
    queue_save(keys, clock, true)
    return { outlived and 0 or 1 }, true
  end)
  return reply[1]
end

--[[
  Gives a delayed message another due moment; wakes idle processes if it is now due before all that wait.

  KEYS[1..11]  the queue: see queue_keys
  KEYS[12], ARGV[1..2]  see run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      id
  ARGV[5]      delay from now, ms

  Returns 1, or 0 if no such message is delayed; then 1 if processes were woken, else 0
]]
function queue_reschedule()
  local keys = queue_keys()
  local given = ARGV[3]
  local id = ARGV[4]
  local delay = tonumber(ARGV[5])

  return run_once(function()
    local clock = queue_clock(keys, given)
    local now = clock.now
    local text = redis.call('HGET', keys.messages, id)
    if not text then return { 0, 0 }, false end
    if queue_outlived(text, now) then return { 0, 0 }, false end
    local record = queue_record(text)
    local member = record.seq .. (redis.call('HGET', keys.tries, id) or QUEUE_UNTRIED) .. id
    local score = redis.call('ZSCORE', keys.delayed, member)
    if not score or tonumber(score) % QUEUE_BAND <= now then return { 0, 0 }, false end
    redis.call('ZADD', keys.delayed, queue_score(record.priority, now + delay), member)
    queue_save(keys, clock)
    local from = queue_score(record.priority, 0)
    local first = redis.call('ZRANGE', keys.delayed, from, '+inf', 'BYSCORE', 'LIMIT', '0', '1')
    if first[1] ~= member then return { 1, 0 }, true end
    queue_wake(keys)
    return { 1, 1 }, true
  end)
end

--[[
  Puts dead letters back: ready at once, their attempts counted from 1, without their ttl. A letter whose id is in the
  queue again, or whose record has another version, stays where it is.

  KEYS[1..11]  the queue: see queue_keys
  KEYS[12], ARGV[1..2]  see run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      how many of the oldest to pass over, when no ids are given
  ARGV[5]      how many to bring back, when no ids are given
  ARGV[6…]     ids

  Returns how many came back, how many were looked at (fewer than given if they are large), and 1 if processes were
  woken, else 0
]]
function queue_redrive()
  local keys = queue_keys()
  local given = ARGV[3]
  local from = tonumber(ARGV[4])
  local count = tonumber(ARGV[5])
  local named = {}
  for i = 6, #ARGV do
    named[#named + 1] = ARGV[i]
  end

  return run_once(function()
    local ids = #named > 0 and named or redis.call('ZRANGE', keys.dead, from, from + count - 1)
    if #ids == 0 then return { 0, 0, 0 }, false end
    local clock = queue_clock(keys, given)
    local stamp = queue_stamp(clock)
    local graves, looked = queue_texts(keys.graves, ids)
    local back = 0
    for i = 1, looked do
      local id, grave = ids[i], graves[i]
      local text = grave and cmsgpack.unpack(grave)[3]
      if grave and queue_readable(text) and redis.call('HEXISTS', keys.messages, id) == 0 then
        local seq = string.format('%s%04d', stamp, i)
        local rest = string.sub(text, 38)
        local record = queue_record(text)
        redis.call('HSET', keys.messages, id, string.format('%s%s%d%015d', QUEUE_VERSION, seq, record.priority, 0) .. rest)
        redis.call('ZADD', keys.delayed, queue_score(record.priority, clock.now), seq .. QUEUE_UNTRIED .. id)
        redis.call('HDEL', keys.graves, id)
        redis.call('ZREM', keys.dead, id)
        back = back + 1
      end
    end
    if back > 0 then
      queue_save(keys, clock, false, true)
      queue_wake(keys)
    end
    return { back, looked, back > 0 and 1 or 0 }, back > 0
  end)
end

--[[
  Lists dead letters, oldest first; fewer than asked for if they are large (queue_texts).

  KEYS[1..11]  the queue: see queue_keys
  ARGV[1]      how many to pass over
  ARGV[2]      how many to list

  Returns how many it looked at, then for each: id, record, deliveries, reason, moment of its death in ms
]]
function queue_dead()
  local keys = queue_keys()
  local from = tonumber(ARGV[1])
  local count = tonumber(ARGV[2])

  local rows = redis.call('ZRANGE', keys.dead, from, from + count - 1, 'WITHSCORES')
  if #rows == 0 then return { 0 } end
  local ids = {}
  for i = 1, #rows, 2 do
    ids[#ids + 1] = rows[i]
  end
  local graves, looked = queue_texts(keys.graves, ids)
  local reply = { looked }
  for i = 1, looked do
    local id = ids[i]
    if graves[i] then
      local attempts, reason, text = unpack(cmsgpack.unpack(graves[i]))
      reply[#reply + 1] = { id, text, attempts, reason, tonumber(rows[2 * i]) }
    end
  end
  return reply
end
