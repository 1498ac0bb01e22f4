--[[
  Opens a shared rate. The KEYS of each of its scripts begin with: 1 config (HASH), 2 clients (ZSET of client → the moment from which its
  state no longer matters), 3 log and 4 to 6 line of all clients together, 7 log and 8 to 10 line of this client; the three keys of a line are those
  of line_open. Returns nil if no rate is set, else an object with
    limit       a sliding window: rate permits in any interval
    log         the key of the log of grants
    group       the keys that count for this client: log, line, asks, meta
    fleeting    true if each client is counted separately
    keep_alive  how long the limiter lives unused, ms; -1 for ever
    ends_at     when the whole limiter ends (nil: it does not)
    life        for how long a request that may be repeated is remembered, ms
    expires_at(reset)        the moment at which a key may expire whose state no longer matters in `reset` ms
    register(client, reset)  notes that a client has state of its own for `reset` ms more
    use(reset)  notes a use; the state then no longer matters in `reset` ms
]]
-- @include rate_group
local function rate_open(clock, now)
  local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'mode', 'keepAlive', 'endsAt', 'idleAt')
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
  local fleeting = config[3] == 'per-client'
  local function text(at) return string.format('%.0f', at + server_ahead) end
  local function expires_at(reset)
    local at = now + reset + padding
    if keep_alive then at = math.min(at, now + math.max(keep_alive, reset) + slack) end
    if ends_at then at = math.min(at, ends_at + slack) end
    return text(at)
  end
  return {
    limit = { algorithm = 'sliding-window', quota = rate, window = interval, burst = rate },
    log = fleeting and KEYS[7] or KEYS[3],
    group = rate_group(fleeting and 7 or 3),
    fleeting = fleeting,
    keep_alive = keep_alive or -1,
    ends_at = ends_at,
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
        if fleeting then idle = math.max(idle, idle_at or 0) end
        if ends_at then idle = math.min(idle, ends_at) end
        redis.call('HSET', KEYS[1], 'idleAt', string.format('%.0f', idle))
        redis.call('PEXPIREAT', KEYS[1], text(idle + slack))
      end
    end,
  }
end
