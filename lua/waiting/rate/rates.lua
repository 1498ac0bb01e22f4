-- Shared rates.
local lines = require 'waiting.line.lines'
local log_states = require 'limiter.log_states'
local rates = {}

--[[
  Opens a shared rate. The KEYS of each of its scripts begin with: 1 config (HASH), 2 clients (ZSET of client → stamp of
  its last use), 3 log and 4 to 6 line of all clients together, 7 log and 8 to 10 line of this client; the three keys of
  a line are those of lines.open.

  A change of the rate writes its stamp, and touches only the state of all clients together and of the caller: however
  many clients there are. A client whose stamp is not above it is outdated: rates.update does the rest when the client
  comes next, or rate_sweep before, a page at a time. Stamps are ms × 1000, and each is greater than those before it.

  Returns nil if no rate is set, else an object with
    limit       a sliding window: rate permits in any interval
    log         the key of the log of grants
    group       the keys that count for this client: log, line, asks, meta
    per_client  true if each client is counted separately
    keep_alive  how long the limiter lives unused, ms; -1 for ever
    ends_at     when the whole limiter ends (nil: it does not)
    known_since  the later of forgot_at and moved_at: a fact of each grant, by which one that counts no more is known
    set_at, forgot_at, moved_at  stamps of the last change, of the last that forgot what was granted, and of the last
                                 that changed which clients are counted together
    expires_at(reset)        the moment at which a key may expire whose state no longer matters in `reset` ms
    register(client, reset)  notes that a client has state of its own for `reset` ms more, and is up to date
    keep_clients(reset)      keeps what is known of clients for at least `reset` ms more
    use(reset)  notes a use; the state then no longer matters in `reset` ms
]]
function rates.open(clock, now)
  local config = redis.call(
    'HMGET', KEYS[1], 'rate', 'interval', 'mode', 'keepAlive', 'endsAt', 'idleAt', 'setAt', 'forgotAt',
    'movedAt'
  )
  local rate, interval = tonumber(config[1]), tonumber(config[2])
  local keep_alive, ends_at, idle_at = tonumber(config[4]), tonumber(config[5]), tonumber(config[6])
  local set_at, forgot_at, moved_at = tonumber(config[7]) or 0, tonumber(config[8]) or 0, tonumber(config[9]) or 0
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
  local function keep_clients(reset)
    local at = expires_at(reset)
    -- Another client's state may last longer than this one's.
    if redis.call('PTTL', KEYS[2]) < tonumber(at) - now - server_ahead then redis.call('PEXPIREAT', KEYS[2], at) end
  end
  return {
    limit = { algorithm = 'sliding_window', quota = rate, window = interval },
    log = per_client and KEYS[7] or KEYS[3],
    group = rates.group(per_client and 7 or 3),
    per_client = per_client,
    keep_alive = keep_alive or -1,
    ends_at = ends_at,
    known_since = math.max(forgot_at, moved_at),
    set_at = set_at,
    forgot_at = forgot_at,
    moved_at = moved_at,
    expires_at = expires_at,
    register = function(client, reset)
      redis.call('ZADD', KEYS[2], string.format('%.0f', math.max(now * 1000, set_at + 1)), client)
      -- The state of clients that came last so long ago matters no more; a few at a time, so that no call is long.
      local matters = math.max(interval, lines.LIFE_MS)
      local gone = string.format('%.0f', (now - matters - padding) * 1000)
      for _, dead in ipairs(redis.call('ZRANGE', KEYS[2], '-inf', gone, 'BYSCORE', 'LIMIT', '0', '16')) do
        redis.call('ZREM', KEYS[2], dead)
      end
      keep_clients(reset)
    end,
    keep_clients = keep_clients,
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

--- The four keys of a group of clients whose calls are counted together under a shared rate, from KEYS[i] on: a log,
--- and the line of their waiters.
function rates.group(i)
  return { log = KEYS[i], line = KEYS[i + 1], asks = KEYS[i + 2], meta = KEYS[i + 3] }
end

--- The stamp of a change at `now`, as text: above those of all clients and of the last change of this rate (nil: there
--- is none).
function rates.stamp(now, rate)
  local newest = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2]
  local last = math.max(tonumber(newest) or 0, rate and rate.set_at or 0)
  return string.format('%.0f', math.max(now * 1000, last + 1))
end

--- The next clients that a change has left outdated, at most rates.PAGE. Without a rate: the next of all.
rates.PAGE = 50
function rates.outdated(rate)
  local last = rate and string.format('%.0f', rate.set_at) or '+inf'
  local clients = redis.call('ZRANGE', KEYS[2], '-inf', last, 'BYSCORE', 'LIMIT', '0', rates.PAGE)
  -- What is known of clients ends with the rate, but not before each of them knows of the end.
  if #clients == 0 and rate and rate.ends_at then
    redis.call('PEXPIREAT', KEYS[2], rate.expires_at(rate.limit.window))
  end
  return clients
end

--- Opens the line of the waiters of a rates.group, and deletes foreign values in its keys. Returns nil if no request
--- waits.
function rates.line(group, channel)
  if redis.call('EXISTS', group.line, group.asks, group.meta) == 0 then return nil end
  local kinds = { [group.line] = 'zset', [group.asks] = 'zset', [group.meta] = 'hash' }
  for key, expected in pairs(kinds) do
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'none' and kind ~= expected then redis.call('DEL', key) end
  end
  local line = lines.open(group.line, group.asks, group.meta, channel)
  if line.err or line.units == 0 then return nil end
  return line
end

--- Returns the capacity of an opened rate (see lines.walk and asks.handle). save() gives the log the lifetime of the
--- rate, if it has changed.
function rates.capacity(rate, now)
  local limit = rate.limit
  local state = log_states.open(limit, rate.log, now)
  local is_changed = false
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
  capacity.grant = function(cost, _, granted)
    state.charge(cost)
    is_changed, capacity.granted = true, true
    granted[#granted + 1] = rate.known_since
  end
  capacity.give_back = function(cost, _, granted_at, known_since)
    if tonumber(known_since) ~= rate.known_since then return end
    local back = state.settle(cost, { charged_at = granted_at })
    is_changed = true
    -- A release gives back the oldest grants that count, and may have taken this one for another.
    if back < cost and now - granted_at < limit.window then state.refund(limit, cost - back) end
  end
  capacity.save = function()
    if is_changed then redis.call('PEXPIREAT', rate.log, rate.expires_at(state.reset())) end
  end
  return capacity
end

--[[
  Applies a changed rate to a group: its log gets the lifetime that it needs, and its waiters are told. `forgets`: what
  was granted counts no more. `moves`: its waiters must join another line. Returns in how many ms its state no longer
  matters, 0 if there is none.
]]
function rates.apply(rate, group, channel, now, forgets, moves)
  if forgets then redis.call('DEL', group.log) end
  rate.log, rate.group = group.log, group
  local line = rates.line(group, channel)
  if not line and redis.call('EXISTS', group.log) == 0 then return 0 end
  local capacity = rates.capacity(rate, now)
  local reset = capacity.reset()
  if reset > 0 then redis.call('PEXPIREAT', group.log, rate.expires_at(reset)) end
  if not line then return reset end
  lines.notify_all(line)
  -- Separate counts become one, or one becomes several. Without a rate nobody waits.
  if moves then line.units = 0 end
  if line.units > 0 then lines.walk(line, nil, capacity, { next = 0 }) end
  lines.save(line)
  if line.units == 0 then return reset end
  if rate.ends_at then
    for _, key in ipairs({ group.line, group.asks, group.meta }) do
      redis.call('PEXPIREAT', key, rate.expires_at(lines.LIFE_MS))
    end
  end
  return math.max(reset, lines.LIFE_MS)
end

--- Deletes the state of a group whose rate has ended, and tells its waiters.
function rates.delete(group, channel)
  local line = rates.line(group, channel)
  if line then lines.notify_all(line) end
  redis.call('DEL', group.log, group.line, group.asks, group.meta)
end

--- Brings the state of a client up to the last change of the rate, if it is outdated. What a client has taken counts
--- only while it is registered: as long as it matters.
function rates.update(rate, client, group, channel, now)
  local used_at = tonumber(redis.call('ZSCORE', KEYS[2], client) or nil)
  if not used_at then redis.call('DEL', group.log) end
  if not used_at or used_at > rate.set_at then return end
  local log, own = rate.log, rate.group
  local reset = rates.apply(rate, group, channel, now, used_at <= rate.forgot_at, used_at <= rate.moved_at)
  rate.log, rate.group = log, own
  if rate.per_client and reset > 0 then
    rate.register(client, reset)
    rate.use(reset)
  else
    redis.call('ZREM', KEYS[2], client)
  end
end

return rates
