--[[
  Extends leases, of several semaphores in one call.

  KEYS       for each semaphore seven: see semaphore_read
  ARGV[1]    the beginning of the channel names of all processes
  ARGV[2]    how many semaphores; then for each of them:
             now, ms ('' for the server's clock); lifetime in ms while nothing is held (-1: as stored); the holder,
             "process/number"; how many leases; then for each lease: id, fencing token, its length in ms from now (0:
             only look)

  Returns for each lease its deadline; -1 if it is lost; for the leases of a semaphore that cannot be read, the error of
  Redis.
]]
function semaphore_renew()
  local channel = ARGV[1]
  local semaphores = tonumber(ARGV[2])

  local function extend(s, at, holder)
    local id, token, ms = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
    local deadline = s and tonumber(redis.call('ZSCORE', s.leases, id) or nil)
    if not deadline or deadline <= s.now then return -1 end
    local _, _, stamp = semaphore_parse_fact(redis.call('HGET', s.facts, id))
    local directly = string.sub(id, 1, 1) == '~'
    if not directly and stamp ~= token then return -1 end
    if ms == 0 then return deadline end
    deadline = s.now + ms
    -- No lease was written later than the newest token: see semaphore_repair_clock.
    s.last = math.max(s.last, s.micros)
    s.issued = true
    if directly then semaphore_note_holder(s.leases, holder, s.micros) end
    redis.call('ZADD', s.leases, string.format('%.0f', deadline), id)
    s.latest = math.max(s.latest or 0, deadline)
    return deadline
  end

  local at = 3
  local reply = {}
  for i = 1, semaphores do
    local keys = { unpack(KEYS, i * 7 - 6, i * 7) }
    local clock, idle, holder, count = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], tonumber(ARGV[at + 3])
    local first = at + 4
    at = first + 3 * count
    -- A semaphore whose keys hold something else must not end the leases of the others.
    local answers = {}
    local done, failure = pcall(function()
      local s = semaphore_open(keys, clock, -1, idle)
      if s and s.err then error(s.err, 0) end
      for lease = first, at - 1, 3 do answers[#answers + 1] = extend(s, lease, holder) end
      local line = s and semaphore_serve(s, keys, channel, false)
      if line and line.err then error(line.err, 0) end
    end)
    -- Redis 7 returns a table.
    if not done then failure = type(failure) == 'table' and failure.err or tostring(failure) end
    for lease = 1, count do reply[#reply + 1] = done and answers[lease] or failure end
  end
  return reply
end

--[[
  Reads the state of a semaphore.

  KEYS[1..7]  the semaphore: see semaphore_read
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2]     permits to set if none are set; -1 for none
  ARGV[3]     lifetime in ms while nothing is held; -1: as stored
  ARGV[4]     the beginning of the channel names of all processes
  ARGV[5]     1 to list the leases

  Returns { permits, used, the number of waiters }, then id, deadline and permits of each lease that was asked for; { -2
  } without a semaphore. If all processes that wait seem to be dead, no waiters are counted.
]]
function semaphore_look()
  local clock = ARGV[1]
  local initial = tonumber(ARGV[2])
  local idle = tonumber(ARGV[3])
  local channel = ARGV[4]
  local lists = ARGV[5] == '1'

  local s = semaphore_open(KEYS, clock, initial, idle)
  if not s then return { -2 } end
  if s.err then return redis.error_reply(s.err) end
  -- Serving may rename their key: see semaphore_sweep.
  local leases = lists and redis.call('ZRANGEBYSCORE', s.leases, s.now + 1, SEMAPHORE_ABOVE, 'WITHSCORES') or {}
  local line = semaphore_serve(s, KEYS, channel, false)
  if line.err then return redis.error_reply(line.err) end
  local reply = { s.permits, s.used, line_alive(line) and redis.call('ZCARD', KEYS[4]) or 0 }
  for i = 1, #leases, 2 do
    reply[#reply + 1] = string.match(leases[i], '^~?(.*)$')
    reply[#reply + 1] = tonumber(leases[i + 1])
    reply[#reply + 1] = (semaphore_parse_fact(redis.call('HGET', s.facts, leases[i])))
  end
  return reply
end
