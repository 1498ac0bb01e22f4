--[[
  Counts the messages of a delay queue.

  KEYS[1..11]  the queue: see queue_keys
  ARGV[1]      now, ms; '' for the server's clock

  Returns ready, delayed, unacked, dead, due moment of the next that is delayed, by the server's clock (-1: none), 1 if
  more had to be swept out than one call may (then ask again), how many became dead letters, for how long the oldest
  ready message has been due, ms, and in how many ms the next is due (-1: none): a process must not measure that by its
  own clock
]]
function queue_stats()
  local keys = queue_keys()
  local clock = queue_clock(keys, ARGV[1])
  local now = clock.now
  local more = queue_purge(keys, now, 200)
  local buried = queue_expire(keys, now, 100)
  local ready, delayed, next_due, oldest = 0, 0, -1, now
  for priority = 0, 9 do
    local from, to = queue_score(priority, now), queue_score(priority, QUEUE_BAND)
    local due = redis.call('ZCOUNT', keys.delayed, queue_score(priority, 0), from)
    ready = ready + due
    if due > 0 then
      local start = queue_score(priority, 0)
      local row = redis.call('ZRANGE', keys.delayed, start, from, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
      oldest = math.min(oldest, tonumber(row[2]) % QUEUE_BAND)
    end
    local later = redis.call('ZCOUNT', keys.delayed, '(' .. from, to)
    if later > 0 then
      local after = '(' .. from
      local row = redis.call('ZRANGE', keys.delayed, after, to, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
      local at = tonumber(row[2]) % QUEUE_BAND - clock.ahead
      if next_due < 0 or at < next_due then next_due = at end
    end
    delayed = delayed + later
  end
  local next_in = next_due < 0 and -1 or next_due + clock.ahead - now
  local lost = redis.call('ZCOUNT', keys.unacked, '-inf', now)
  local unacked = redis.call('ZCARD', keys.unacked)
  local dead = redis.call('ZCARD', keys.dead)
  queue_save(keys, clock, true)
  return { ready, delayed, unacked, dead, next_due, (more or lost > 0) and 1 or 0, buried, now - oldest, next_in }
end

--[[
  Pauses or resumes the deliveries of a delay queue. A pause is a member before all others, so that checking it costs
  nothing.

  KEYS[1..11]  the queue: see queue_keys
  KEYS[12], ARGV[1..2]  see run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      1 to pause, 0 to resume

  Returns 1 if processes were woken, else 0
]]
function queue_pause()
  local keys = queue_keys()
  local given = ARGV[3]
  local hold = ARGV[4] == '1'

  -- It counts as a change even if nothing changes: repeated later, it must not undo what others have done in between.
  return run_once(function()
    if hold then
      redis.call('ZADD', keys.delayed, '-1', 'paused')
      queue_save(keys, queue_clock(keys, given))
      return { 0 }, true
    end
    if redis.call('ZREM', keys.delayed, 'paused') == 0 then return { 0 }, true end
    queue_save(keys, queue_clock(keys, given))
    queue_wake(keys)
    return { 1 }, true
  end)
end

--[[
  Empties a delay queue, dead letters too. Open deliveries become stale; a pause continues.

  KEYS[1..11]  the queue: see queue_keys
  KEYS[12], ARGV[1..2]  see run_once
  ARGV[3]      now, ms; '' for the server's clock

  Returns nothing of use
]]
function queue_clear()
  local keys = queue_keys()
  local given = ARGV[3]

  -- If it is repeated after a lost answer, it must not delete messages pushed since.
  return run_once(function()
    local now = queue_clock(keys, given).now
    local last = redis.call('ZRANGE', keys.unacked, '-1', '-1', 'WITHSCORES')
    local paused = redis.call('ZSCORE', keys.delayed, 'paused')
    -- Another thread of the server frees a large queue.
    redis.call('UNLINK', keys.clock, unpack(KEYS, 1, 9))
    if paused then redis.call('ZADD', keys.delayed, '-1', 'paused') end
    -- As long as a process may believe that its delivery is valid.
    if last[2] and tonumber(last[2]) > now then
      redis.call('SET', keys.cleared, '1', 'PX', string.format('%.0f', tonumber(last[2]) - now))
    end
    return {}, true
  end)
end

--[[
  Wakes processes for messages that the caller cannot take; or checks that one came after the last wake-up, and wakes
  more if not.

  KEYS[1..11]  the queue: see queue_keys
  ARGV[1]      0 to wake; else how many to wake at once if none came, at most 64

  Returns 1 if processes were woken. 0 if one came, or none is idle: then the messages wake the next process that
  becomes idle
]]
function queue_wake_more()
  local keys = queue_keys()
  local more = math.min(64, tonumber(ARGV[1]))

  if more > 0 then
    if redis.call('EXISTS', keys.called) == 0 or redis.call('EXISTS', keys.wake) == 1 then return 0 end
    local members = {}
    for i = 1, more do
      members[2 * i - 1] = '0'
      members[2 * i] = string.format('%d', i)
    end
    redis.call('ZADD', keys.wake, unpack(members))
  end
  queue_wake(keys)
  return 1
end
