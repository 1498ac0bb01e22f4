-- Shared rates.
local lines = require 'waiting.line.lines'
local log_states = require 'limiter.log_states'
local rates = {}

--[[
  Opens a shared rate. The KEYS of each of its scripts begin with: 1 config (HASH), 2 clients (ZSET of client → the
  moment from which its state no longer matters), 3 log and 4 to 6 line of all clients together, 7 log and 8 to 10 line
  of this client; the three keys of a line are those of lines.open. Returns nil if no rate is set, else an object with
    limit       a sliding window: rate permits in any interval
    log         the key of the log of grants
    group       the keys that count for this client: log, line, asks, meta
    per_client  true if each client is counted separately
    keep_alive  how long the limiter lives unused, ms; -1 for ever
    ends_at     when the whole limiter ends (nil: it does not)
    known_since  when earlier grants were last forgotten
    expires_at(reset)        the moment at which a key may expire whose state no longer matters in `reset` ms
    register(client, reset)  notes that a client has state of its own for `reset` ms more
    use(reset)  notes a use; the state then no longer matters in `reset` ms
]]
function rates.open(clock, now)
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
    limit = { algorithm = 'sliding_window', quota = rate, window = interval },
    log = per_client and KEYS[7] or KEYS[3],
    group = rates.group(per_client and 7 or 3),
    per_client = per_client,
    keep_alive = keep_alive or -1,
    ends_at = ends_at,
    known_since = tonumber(config[7]),
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

--- The four keys of a group of clients whose calls are counted together under a shared rate, from KEYS[i] on: a log,
--- and the line of their waiters.
function rates.group(i, client)
  return { log = KEYS[i], line = KEYS[i + 1], asks = KEYS[i + 2], meta = KEYS[i + 3], client = client }
end

--[[
  Returns the groups of a shared rate that are counted separately, as a list of rates.group: first the group of all
  clients together, then a group for each client. The clients are named in ARGV from `first` on, and their keys begin at
  KEYS[7]. If keys of clients are missing, returns nil and these clients: the caller must repeat the call with their
  keys, too.
]]
function rates.groups(first)
  local groups, known = { rates.group(3) }, {}
  for i = first, #ARGV do
    known[ARGV[i]] = true
    groups[#groups + 1] = rates.group(7 + (i - first) * 4, ARGV[i])
  end
  local missing = {}
  for _, client in ipairs(redis.call('ZRANGE', KEYS[2], '0', '-1')) do
    if not known[client] then missing[#missing + 1] = client end
  end
  if #missing > 0 then return nil, missing end
  return groups
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

--- Returns the capacity of an opened rate (see lines.walk and asks.handle), or { err } if its log has a foreign value.
--- save() gives the log the lifetime of the rate, if it has changed.
function rates.capacity(rate, now)
  local limit = rate.limit
  local state = log_states.open(limit, rate.log, now)
  local is_changed = false
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
    is_changed, capacity.granted = true, true
  end
  capacity.give_back = function(cost, _, granted_at)
    local back = state.settle(cost, { charged_at = granted_at })
    is_changed = true
    -- A release gives back the oldest grants that count, and may have taken this one for another.
    local is_known = granted_at > rate.known_since and now - granted_at < limit.window
    if back < cost and is_known then state.refund(limit, cost - back) end
  end
  capacity.save = function()
    if is_changed then redis.call('PEXPIREAT', rate.log, rate.expires_at(state.reset())) end
  end
  return capacity
end

return rates
