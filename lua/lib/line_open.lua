--[[
  Opens a waiting line. Its clock is the server's, also if a test passes a clock: whether a process lives is a matter of real time.
  Its keys, which live for a minute after the last ask:

    line   ZSET waiter → ticket. A waiter is "member number cost own": its number within the member, its units, and data that only the user of the line reads
    asks   ZSET member → the moment in ms by which it asks again. A member that is not in it has no waiters any more
    meta   HASH v (version of this state), last (newest ticket), units (sum of all costs in the line), fresh (when the lifetimes were set)

  A member is "process/number". Tickets rise: each is the server's time in µs, or one more than the last. Returns { err } for a line of
  another version.
]]
local LINE_VERSION = '1'
-- A member that asks later than this counts as dead; if it is alive, it joins again with its tickets. A dead member delays the waiters
-- behind it by about a second.
local LINE_GRACE_MS = 900

local function line_open(key, asks, meta, channel)
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local stored = redis.call('HMGET', meta, 'v', 'last', 'units', 'fresh')
  if stored[1] and stored[1] ~= LINE_VERSION then
    return {
      err = 'ERR the waiting line has version ' .. stored[1] .. ', this process expects version ' .. LINE_VERSION
        .. ': let all processes that share it run one version of spillway',
    }
  end
  return {
    key = key,
    asks = asks,
    meta = meta,
    channel = channel,
    now = math.floor(micros / 1000),
    micros = micros,
    stored = stored[1] ~= false,
    last = tonumber(stored[2]) or 0,
    units = tonumber(stored[3]) or 0,
    fresh = tonumber(stored[4]) or 0,
    known = {},
  }
end
