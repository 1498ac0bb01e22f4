--[[
  Opens a shared rate. The KEYS of each of its scripts begin with: 1 config (HASH), 2 clients (ZSET of client → the
  moment from which its state no longer matters), 3 log and 4 to 6 line of all clients together, 7 log and 8 to 10 line
  of this client; the three keys of a line are those of line_open. Returns nil if no rate is set, else an object with
    limit       a sliding window: rate permits in any interval
    log         the key of the log of grants
    group       the keys that count for this client: log, line, asks, meta
    per_client  true if each client is counted separately
    keep_alive  how long the limiter lives unused, ms; -1 for ever
    ends_at     when the whole limiter ends (nil: it does not)
    known_since  when earlier grants were last forgotten
    life        for how long a request that may be repeated is remembered, ms
    expires_at(reset)        the moment at which a key may expire whose state no longer matters in `reset` ms
    register(client, reset)  notes that a client has state of its own for `reset` ms more
    use(reset)  notes a use; the state then no longer matters in `reset` ms
]]
local function rate_open(clock, now)
  local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'mode', 'keepAlive', 'endsAt', 'idleAt', 'knownSince')
  local rate, interval = tonumber(config[1]), tonumber(config[2])
  local keep_alive, ends_at, idle_at = tonumber(config[4]), tonumber(config[5]), tonumber(config[6])
  if not rate or not interval then return nil end
  if (ends_at and now >= ends_at) or (idle_at and now >= idle_at) then return nil end
  -- A given clock may stand still while the server's clock runs.
  local server_ahead, padding, slack = 0, math.min(interval, 1000), 0
  if clock ~= '' then
    local time = redis.call('TIME')
    server_ahead = time[1] * 1000 + math.floor(time[2] / 1000) - now
    padding, slack = 5000, 5000
  end
  local per_client = config[3] == 'per-client'
  local function text(at) return string.format('%.0f', at + server_ahead) end
  local function expires_at(reset)
    local at = now + reset + padding
    if keep_alive then at = math.min(at, now + math.max(keep_alive, reset) + slack) end
    if ends_at then at = math.min(at, ends_at + slack) end
    return text(at)
  end
  return {
    limit = { algorithm = 'sliding-window', quota = rate, window = interval, burst = rate },
    log = per_client and KEYS[7] or KEYS[3],
    group = rate_group(per_client and 7 or 3),
    per_client = per_client,
    keep_alive = keep_alive or -1,
    ends_at = ends_at,
    known_since = tonumber(config[7]),
    life = math.max(1, math.min(keep_alive or 60000, ends_at and ends_at - now or 60000, 60000)),
    expires_at = expires_at,
    register = function(client, reset)
      redis.call('ZADD', KEYS[2], now + reset, client)
      redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - padding)
      -- Another client's state may last as long as this one's, or longer.
      local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
      redis.call('PEXPIREAT', KEYS[2], expires_at(math.max(reset, tonumber(last[2]) - now)))
    end,
    use = function(reset)
      if keep_alive then
        local idle = now + math.max(keep_alive, reset)
        if per_client then idle = math.max(idle, idle_at or 0) end
        if ends_at then idle = math.min(idle, ends_at) end
        redis.call('HSET', KEYS[1], 'idleAt', string.format('%.0f', idle))
        redis.call('PEXPIREAT', KEYS[1], text(idle + slack))
      end
    end,
  }
end

--[[ The four keys of a group of clients whose calls are counted together under a shared rate, from KEYS[i] on: a log,
and the line of their waiters. ]]
local function rate_group(i, client)
  return { log = KEYS[i], line = KEYS[i + 1], asks = KEYS[i + 2], meta = KEYS[i + 3], client = client }
end

--[[
  Returns the groups of a shared rate that are counted separately, as a list of rate_group: first the group of all
  clients together, then a group for each client. The clients are named in ARGV from `first` on, and their keys begin at
  KEYS[7]. If keys of clients are missing, returns nil and these clients: the caller must repeat the call with their
  keys, too.
]]
local function rate_groups(first)
  local groups, known = { rate_group(3) }, {}
  for i = first, #ARGV do
    known[ARGV[i]] = true
    groups[#groups + 1] = rate_group(7 + (i - first) * 4, ARGV[i])
  end
  local missing = {}
  for _, client in ipairs(redis.call('ZRANGE', KEYS[2], '0', '-1')) do
    if not known[client] then missing[#missing + 1] = client end
  end
  if #missing > 0 then return nil, missing end
  return groups
end

--[[ Opens the line of the waiters of a rate_group, and deletes foreign values in its keys. Returns nil if no request
waits. ]]
local function rate_line(group, channel)
  if redis.call('EXISTS', group.line, group.asks, group.meta) == 0 then return nil end
  local kinds = { [group.line] = 'zset', [group.asks] = 'zset', [group.meta] = 'hash' }
  for key, expected in pairs(kinds) do
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'none' and kind ~= expected then redis.call('DEL', key) end
  end
  local line = line_open(group.line, group.asks, group.meta, channel)
  if line.err or line.units == 0 then return nil end
  return line
end

--[[ Returns the capacity of an opened rate (see line_walk and line_ask), or { err } if its log has a foreign value. ]]
local function rate_capacity(rate, now)
  local limit = rate.limit
  local state = log_state(limit, rate.log, now, rate.expires_at)
  if state.err then return state end
  local capacity = {
    now = now,
    most = limit.quota,
    late = math.max(50, math.floor(limit.window / 10)),
    check = rate.ends_at and rate.ends_at - now,
    has_end = rate.ends_at ~= nil,
    -- ms until the state no longer matters
    reset = function() return state.reset() end,
  }
  capacity.when = function(ahead, cost)
    local wait = state.ahead(limit, ahead, cost)
    if wait > 0 and rate.ends_at and now + wait >= rate.ends_at then return -2 end
    return wait
  end
  capacity.grant = function(cost)
    state.charge(cost)
    capacity.granted = true
  end
  capacity.give_back = function(cost, _, granted_at)
    local back = state.settle(cost, { charged_at = granted_at })
    -- A release gives back the oldest grants that count, and may have taken this one for another.
    local is_known = granted_at > rate.known_since and now - granted_at < limit.window
    if back < cost and is_known then state.refund(limit, cost - back) end
  end
  return capacity
end

--[[
  An ask of the waiting line of a shared rate: takes permits at once where they are free, joins and leaves the line,
  collects grants.

  KEYS[1..10]  see rate_open
  KEYS[11]     record of the member; KEYS[12] of the member that it replaces, or the same
  ARGV[1]      now, ms; '' for the server's clock
  ARGV[2]      client
  ARGV[3]      what the channel of every process begins with
  ARGV[4..]    the ask: see line_ask
  ARGV[10]     the last moment at which this may be carried out, ms: its process has given the ask up then

  Returns what line_ask returns, or '-2' where no rate is set; a list of now alone if it came too late. Refused with -1:
  more than the rate; with -2: the rate ends before.
]]
function rate_ask()
  local clock = ARGV[1]
  local client = ARGV[2]
  local channel = ARGV[3]
  local now = now_ms(clock)
  if is_late(now) then return { now } end

  local rate = rate_open(clock, now)
  if not rate then return '-2' end
  local group = rate.group
  local line = line_open(group.line, group.asks, group.meta, channel)
  if line.err then return redis.error_reply(line.err) end
  local capacity = rate_capacity(rate, now)
  if capacity.err then return redis.error_reply(capacity.err) end
  local reply = line_ask(line, KEYS[11], KEYS[12], 4, capacity, rate.life)
  -- A waiter uses the limiter, and asks again within seconds.
  local reset = math.max(capacity.reset(), line.units > 0 and 60000 or 0)
  if rate.per_client and (capacity.granted or line.units > 0) then rate.register(client, reset) end
  rate.use(reset)
  return reply
end

--[[
  Reads the state of a shared rate. Changes nothing.

  KEYS[1..10]  see rate_open
  ARGV[1]      now, ms; '' for the server's clock

  Returns nothing where no rate is set, else a list: rate, interval in ms, mode, keepAlive in ms or -1, permits
  available.
]]
function rate_look()
  local clock = ARGV[1]
  local now = now_ms(clock)

  local rate = rate_open(clock, now)
  if not rate then return {} end
  local limit, group = rate.limit, rate.group
  local log = log_open(rate.log, limit.window, now, false)
  if log.err then return redis.error_reply(log.err) end
  local _, available = sliding_window(limit, now, 0, rate.log, log)
  local line = line_open(group.line, group.asks, group.meta, '')
  if line.err then return redis.error_reply(line.err) end
  if line_alive(line) then available = 0 end
  local mode = rate.per_client and 'per-client' or 'overall'
  return { limit.quota, limit.window, mode, rate.keep_alive, available }
end

--[[
  Gives permits back, the oldest grants that still count first. Notifies the waiters that fit now.

  KEYS[1..10]  see rate_open
  KEYS[11], ARGV[1..2]  see run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      client
  ARGV[5]      permits given back
  ARGV[6]      what the channel of every process begins with

  Returns 1, or -2 where no rate is set.
]]
function rate_release()
  local clock = ARGV[3]
  local client = ARGV[4]
  local permits = tonumber(ARGV[5])
  local channel = ARGV[6]
  local now = now_ms(clock)

  return run_once(function()
    local rate = rate_open(clock, now)
    if not rate then return { -2 } end
    local group, window = rate.group, rate.limit.window
    local line = line_open(group.line, group.asks, group.meta, channel)
    local log = log_open(rate.log, window, now, true)
    local err = line.err or log.err
    if err then return redis.error_reply(err) end
    log_refund_oldest(rate.log, log, permits, rate.expires_at(window))
    local capacity = rate_capacity(rate, now)
    if line.units > 0 then
      line_walk(line, nil, capacity, { next = 0 })
      line_save(line)
    end
    local reset = capacity.reset()
    if rate.per_client and reset > 0 then rate.register(client, reset) end
    rate.use(math.max(reset, line.units > 0 and 60000 or 0))
    return { 1 }, true, rate.life
  end)
end

--[[
  Sets a rate. Notifies the waiters, to whom it applies from now on.

  KEYS[1..10]  see rate_open
  KEYS[11..]   log and line of each further client that is known to have state, four keys each
  KEYS[last], ARGV[1..2]  see run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      when: 'absent', 'present' or 'always'
  ARGV[5]      1 to keep what was granted, 0 to forget it
  ARGV[6]      rate
  ARGV[7]      interval, ms
  ARGV[8]      mode: 'overall' or 'per-client'
  ARGV[9]      how long the limiter lives unused, ms; -1 for ever
  ARGV[10]     what the channel of every process begins with
  ARGV[11..]   the clients whose keys are given: this one, then the further ones in their order

  Returns 1, or 0 if it was not set because of `when`. Or the clients whose keys were not given, and nothing was done.
]]
function rate_set()
  local clock = ARGV[3]
  local when = ARGV[4]
  local keep = ARGV[5] == '1'
  local rate_given, interval_given, mode_given, keep_alive_given = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
  local channel = ARGV[10]
  local now = now_ms(clock)

  return run_once(function()
    local before = rate_open(clock, now)
    if (when == 'absent' and before) or (when == 'present' and not before) then return { 0 } end
    local groups, missing = rate_groups(11)
    if not groups then return missing end
    local keeps = keep and before and before.per_client == (mode_given == 'per-client')
    local known_since = string.format('%.0f', keeps and before.known_since or now)
    redis.call('DEL', KEYS[1])
    redis.call('HSET', KEYS[1], 'rate', rate_given, 'interval', interval_given, 'mode', mode_given, 'knownSince', known_since)
    if keep_alive_given ~= '-1' then redis.call('HSET', KEYS[1], 'keepAlive', keep_alive_given) end
    if before and before.ends_at then
      redis.call('HSET', KEYS[1], 'endsAt', string.format('%.0f', before.ends_at))
      redis.call('PEXPIREAT', KEYS[1], before.expires_at(before.ends_at - now))
    end
    local rate = rate_open(clock, now)
    local latest = 0
    for _, group in ipairs(groups) do
      local kind = redis.call('TYPE', group.log).ok
      if not (keep and before) or (kind ~= 'list' and kind ~= 'none') then redis.call('DEL', group.log) end
      rate.log, rate.group = group.log, group
      local reset = 0
      local line = rate_line(group, channel)
      if line or redis.call('EXISTS', group.log) > 0 then
        local capacity = rate_capacity(rate, now)
        if capacity.err then
          redis.call('DEL', group.log)
          capacity = rate_capacity(rate, now)
        end
        reset = capacity.reset()
        if reset > 0 then redis.call('PEXPIREAT', group.log, rate.expires_at(reset)) end
        if line then
          line_notify_all(line)
          -- Separate counts become one, or one becomes several: every waiter must join another line. Without a rate
          -- nobody waits.
          if not before or before.per_client ~= rate.per_client then line.units = 0 end
          if line.units > 0 then line_walk(line, nil, capacity, { next = 0 }) end
          line_save(line)
          if line.units > 0 then reset = math.max(reset, 60000) end
        end
        if rate.per_client and group.client and reset > 0 then rate.register(group.client, reset) end
      end
      latest = math.max(latest, reset)
    end
    redis.call('PEXPIREAT', KEYS[2], rate.expires_at(math.max(latest, rate.limit.window)))
    rate.use(latest)
    return { 1 }, true, rate.keep_alive > 0 and rate.keep_alive or nil
  end)
end

--[[
  Ends a shared rate with all its state, now or later. Notifies the waiters.

  KEYS[1..10]  see rate_open
  KEYS[11..]   log and line of each further client that is known to have state, four keys each
  KEYS[last-1] record of the caller's own member of the line
  KEYS[last], ARGV[1..2]  see run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      in how many ms it ends; 0 now
  ARGV[5]      what the channel of every process begins with
  ARGV[6..]    the clients whose keys are given: this one, then the further ones in their order

  Returns 1, or 0 where no rate was set. Or the clients whose keys were not given, and nothing was done.
]]
function rate_end()
  local clock = ARGV[3]
  local left = tonumber(ARGV[4])
  local channel = ARGV[5]
  local now = now_ms(clock)

  return run_once(function()
    local rate = rate_open(clock, now)
    if not rate then return { 0 } end
    local groups, missing = rate_groups(6)
    if not groups then return missing end
    for _, group in ipairs(groups) do
      local line = rate_line(group, channel)
      if line then line_notify_all(line) end
      if left == 0 then redis.call('DEL', group.log, group.line, group.asks, group.meta) end
    end
    if left == 0 then
      redis.call('DEL', KEYS[1], KEYS[2], KEYS[#KEYS - 1], KEYS[#KEYS])
      -- Nothing is left behind: a repeated request would be answered 0.
      return { 1 }, false
    end
    redis.call('HSET', KEYS[1], 'endsAt', string.format('%.0f', now + left))
    local ending = rate_open(clock, now)
    redis.call('PEXPIREAT', KEYS[1], ending.expires_at(left))
    local latest = 0
    for _, group in ipairs(groups) do
      local log = log_open(group.log, rate.limit.window, now, false)
      local reset = log.newest and log.newest - now + rate.limit.window or 0
      if reset > 0 then redis.call('PEXPIREAT', group.log, ending.expires_at(reset)) end
      for _, key in ipairs({ group.line, group.asks, group.meta }) do
        redis.call('PEXPIREAT', key, ending.expires_at(60000))
      end
      latest = math.max(latest, reset)
    end
    for _, key in ipairs({ KEYS[2], KEYS[#KEYS - 1] }) do redis.call('PEXPIREAT', key, ending.expires_at(left)) end
    ending.use(latest)
    return { 1 }, true, left
  end)
end
