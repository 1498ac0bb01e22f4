--[[
  The table of the leases of a semaphore is a ZSET with one of two names, and one format. It is called `leases` while somebody waits, or nobody has asked for direct takes;
  it is called `direct` while it is open for them: taking a permit is then one short script (semaphore_take), and giving it back is a plain ZREM. The first script that needs
  the rest of the state renames it to `leases` (semaphore_read): a ZREM then finds nothing, and its sender goes through the line instead. Members and scores:

    id, ~id     a lease, with its deadline in ms. '~': it is of one permit, was taken directly or granted to a waiter, and has no fact
    !extra      -1 - the permits beyond one for each lease, of all leases in the table
    !last       the newest token, in µs
    !room       only under the name `direct`: 4e15 (more than any token) + the greatest number of leases
    @sender     the newest token given to a sender of direct takes, so that a repeated call is recognized
    &address    a process that has extended leases without a fact, or was granted some as a waiter, with the moment in µs: see semaphore_note_holder

  Held are the leases whose deadline has not passed, by their scores, and !extra. So ended leases count for nothing before they are removed, but for permits beyond one: whoever
  removes a lease also subtracts those from !extra, in the same script. Facts (HASH id → "permits member token") live as long as the table.

  semaphore_sweep removes up to `most` ended leases, and returns the permits that !extra is less by.

  semaphore_keep makes the table and the facts live until `ends_at`, in µs, and for at least SEMAPHORE_LIFE_MS after `micros`, now, and after `last`, the newest token: so tokens never
  start again below it, even if the clock was set back. Returns their lifetime in ms. It need not be called again for leases of up to a minute while the newest token is of the same
  16.8 seconds (see semaphore_is_kept): their ends, and the time for which a call can be repeated, lie within that lifetime.
]]
local SEMAPHORE_VERSION = '4'
local SEMAPHORE_ABOVE = '100000000000000'
local SEMAPHORE_SWEEP = 100
local SEMAPHORE_LIFE_MS = 120000

local function semaphore_sweep(leases, facts, now, most)
  local over = redis.call('ZRANGEBYSCORE', leases, '0', now, 'LIMIT', '0', most)
  if #over == 0 then return 0 end
  local extra = 0
  for _, fact in ipairs(redis.call('HMGET', facts, unpack(over))) do
    if fact then extra = extra + string.match(fact, '^%d+') - 1 end
  end
  redis.call('ZREM', leases, unpack(over))
  redis.call('HDEL', facts, unpack(over))
  if extra > 0 then
    local stored = tonumber(redis.call('ZSCORE', leases, '!extra') or nil) or -1
    redis.call('ZADD', leases, string.format('%.0f', math.min(-1, stored + extra)), '!extra')
  end
  return extra
end

local function semaphore_is_kept(last, micros)
  return last and math.floor(last / 16777216) == math.floor(micros / 16777216)
end

local function semaphore_keep(leases, facts, last, micros, ends_at)
  local needed = math.max(last, micros) / 1000 + SEMAPHORE_LIFE_MS
  needed = math.ceil(math.max(needed, ends_at / 1000) - micros / 1000)
  local left = redis.call('PTTL', leases)
  if left < needed then
    left = needed
    redis.call('PEXPIRE', leases, left)
  end
  redis.call('PEXPIRE', facts, left)
  return left
end
