--[[
  Reads a semaphore as it is stored. `keys` are, in this order:

    config   HASH v (version of this state), permits, used (by leases), last (the newest token), idle (lifetime in ms while nothing is held),
             calm (the moment in ms before which no lease ends and nobody waits), life (when the other keys expire), and mended (the newest
             token at the last repair of the leases: see semaphore_repair_clock)
    leases   ZSET id → deadline in ms; more in semaphore_direct
    facts    HASH id → "permits member token" of each lease whose name does not begin with '~'
    line, asks, meta   the waiting line: see line_open. A waiter's own text is "length in ms, space, id" of the wanted lease
    direct   ZSET of the leases, while permits are taken directly: see semaphore_direct

  `initial` sets the permits if none are set. -1: sets none, and without permits the result is nil. Below that: -2 - permits, which apply whatever is
  stored. `idle` below 0: as stored. `floor` is the newest token that the caller has seen; `stored` the configuration, if the caller has read it. Returns { err } for another version.
]]
-- @include semaphore_direct
local SEMAPHORE_VERSION = '3'

local function semaphore_read(keys, clock, initial, idle, floor, stored)
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local s = {
    micros = micros,
    now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
    padding = clock == '' and 1000 or 5000,
    facts_to_write = {},
    deadlines_to_write = {},
    ids_to_drop = {},
  }
  s.config, s.leases, s.facts = unpack(keys, 1, 3)
  s.direct = keys[7]
  s.stored = stored or redis.call('HMGET', s.config, 'permits', 'used', 'last', 'idle', 'calm', 'life', 'v')
  s.permits = tonumber(s.stored[1])
  if s.permits and s.stored[7] ~= SEMAPHORE_VERSION then
    return {
      err = 'ERR the semaphore has version ' .. (s.stored[7] or '1') .. ', this process expects version ' .. SEMAPHORE_VERSION
        .. ': let all processes that share it run one version of spillway',
    }
  end
  if initial < -1 then
    s.permits = -2 - initial
  elseif not s.permits then
    if initial < 0 then return nil end
    s.permits = initial
  end
  s.used = tonumber(s.stored[2])
  s.last = math.max(tonumber(s.stored[3]) or 0, floor or 0)
  s.idle = tonumber(s.stored[4])
  s.calm = s.used and tonumber(s.stored[5]) or 0
  s.life = tonumber(s.stored[6]) or 0
  if idle >= 0 then s.idle = idle end
  if redis.call('EXISTS', s.direct) == 1 then
    redis.call('RENAME', s.direct, s.leases)
    local left = redis.call('ZMSCORE', s.leases, '!extra', '!last')
    s.used = redis.call('ZCOUNT', s.leases, '-inf', SEMAPHORE_ABOVE) + (tonumber(left[1]) or 4e15) - 4e15
    s.last = math.max(s.last, tonumber(left[2]) or 0)
    s.is_direct = true
  end
  return s
end
