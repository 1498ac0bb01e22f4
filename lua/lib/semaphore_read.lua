--[[
  Reads a semaphore as it is stored. `keys` are, in this order:

    config   HASH v (version of this state), permits, idle (lifetime in ms while nothing is held), and mended (the newest token at the last repair of the leases: see
             semaphore_repair_clock)
    leases   the table of the leases: see semaphore_sweep
    facts    HASH id → "permits member token" of each lease whose name does not begin with '~'
    line, asks, meta   the waiting line: see line_open. A waiter's own text is "length in ms, space, id" of the wanted lease
    direct   the table of the leases, while permits are taken directly

  `initial` sets the permits if none are set. -1: sets none, and without permits the result is nil. Below that: -2 - permits, which apply whatever is
  stored. `idle` below 0: as stored. `floor` is the newest token that the caller has seen; `stored` the configuration (permits, idle, v), if the caller has read it. Returns { err }
  for another version.
]]
-- @include semaphore_sweep

local function semaphore_read(keys, clock, initial, idle, floor, stored)
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local s = {
    micros = micros,
    now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
    padding = clock == '' and 1000 or 5000,
    has_clock = clock ~= '',
    facts_to_write = {},
    entries_to_write = {},
    ids_to_drop = {},
  }
  s.config, s.leases, s.facts = unpack(keys, 1, 3)
  s.direct = keys[7]
  s.stored = stored or redis.call('HMGET', s.config, 'permits', 'idle', 'v')
  s.permits = tonumber(s.stored[1])
  if s.permits and s.stored[3] ~= SEMAPHORE_VERSION then
    return {
      err = 'ERR the semaphore has version ' .. (s.stored[3] or '1') .. ', this process expects version ' .. SEMAPHORE_VERSION
        .. ': let all processes that share it run one version of spillway',
    }
  end
  if initial < -1 then
    s.permits = -2 - initial
  elseif not s.permits then
    if initial < 0 then return nil end
    s.permits = initial
  end
  s.idle = tonumber(s.stored[2])
  if idle >= 0 then s.idle = idle end
  local kept = redis.call('ZMSCORE', s.direct, '!extra', '!last')
  if kept[2] then
    redis.call('RENAME', s.direct, s.leases)
    s.is_direct = true
  else
    kept = redis.call('ZMSCORE', s.leases, '!extra', '!last')
  end
  s.stored_last = tonumber(kept[2] or nil)
  s.last = math.max(s.stored_last or 0, floor or 0)
  s.extra = math.max(0, -1 - (tonumber(kept[1] or nil) or -1))
  return s
end
