--[[
  Sells units of a key as a lease: a process may spend them without asking. All limits sell the same, or none sells anything. First takes back what was
  left of the lease before.

  KEYS      the block list of each limit (ZSET member → blocked until, ms); the marks of the waiting lines of the policy (see line_mark);
            the state of each limit; the note of each; the leases of each (ZSET lease → when it was sold, ms; see return_lease); the line in which requests wait for
            these limits together, three keys: see line_open
  ARGV[1]   now, ms; '' for the server's clock
  ARGV[2]   how long the lease lasts at most, ms
  ARGV[3]   units of one request
  ARGV[4]   units that are needed now; ARGV[5] that are wanted
  ARGV[6]   the lease, whose name begins with its owner and a dot; ARGV[7] the one whose units come back, '' for none; ARGV[8] how many; ARGV[9] when it was sold, ms
  ARGV[10]  what the channel of every process begins with on which it hears of its waiters
  ARGV[11]  number of limits, then for each: algorithm, quota, window in ms, burst; then if a lease comes back for each: charged at,
            cost, remaining, reset
  ARGV[…]   last: the last moment at which the script may act, ms

  Returns now, and nothing else, if it came too late; else now, the units sold (-1: no lease can be sold now), how many ms they last, then for each limit
  remaining and reset in ms, and retry as consume returns it: when one request fits, 0 if it does;
  if others hold leases, no later than their units come back.
]]
-- @include now_ms
-- @include read_limits
-- @include read_receipts
-- @include expiry
-- @include open_state
-- @include blocked_until
-- @include return_lease
-- @include leased_for
local clock = ARGV[1]
local now = now_ms(clock)
-- @include steps/stop_if_late
local server_now = clock == '' and now or now_ms('')
local call = redis.call
local ttl, cost, need, want = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local lease, returned, unspent, returned_sold_at = ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local channel, count = ARGV[10], tonumber(ARGV[11])
local limits, receipts_at = read_limits(12, count, now)
local expires_at = expiry(clock, now)
local waiting, keys = KEYS[count + 1], { unpack(KEYS, count + 2, 2 * count + 1) }
local notes, sold = { unpack(KEYS, 2 * count + 2, 3 * count + 1) }, { unpack(KEYS, 3 * count + 2, 4 * count + 1) }
local blocks, line_at, marks = { unpack(KEYS, 1, count) }, 4 * count + 2, waiting

local states = {}
for i = 1, count do
  states[i] = open_state(limits[i], keys[i], now, expires_at)
  if states[i].err then return redis.error_reply(states[i].err) end
end
if returned ~= '' then
  return_lease(returned, unspent, returned_sold_at, limits, states, notes, sold, read_receipts(receipts_at, count), now)
  for i = 1, count do states[i].save() end
  -- @include steps/wake_waiters
end

-- The purchase was carried out before: its answer is in flight, or lost with its units. A second sale could lead to a second return.
if call('ZSCORE', sold[1], lease) then return { now, -1, 0 } end

local some_kept = call('EXISTS', unpack(KEYS, 1, count + 1)) > 0
local line_name = table.concat(keys, ' ')
-- @include steps/read_ahead
local blocked, room, lasts = {}, 9007199254740991, ttl
for i = 1, count do
  blocked[i] = some_kept and blocked_until(KEYS[i], keys[i]) - now or 0
  local units, ms = states[i].room(ttl)
  room, lasts = math.min(room, blocked[i] > 0 and 0 or units), math.min(lasts, ms)
end
-- Waiters come first, and a window that ends now is not worth a lease.
if ahead > 0 or lasts < 2 then return { now, -1, 0 } end

-- A quarter of what is left, so that others find some; all of it shortly before a window ends, because what is left then is lost.
local share = math.min(1, ttl / (4 * lasts))
local units = math.min(want, math.max(math.min(need, room), math.floor(room * share)))
for i = 1, count do
  if units > 0 then
    states[i].buy(units, ttl, notes[i])
    call('ZADD', sold[i], now, lease)
    call('ZREMRANGEBYSCORE', sold[i], '-inf', string.format('%.0f', now - ttl - 10000))
    call('PEXPIRE', sold[i], ttl + 15000)
  end
  states[i].save()
end
local out = { now, units, lasts }
for i = 1, count do
  local _, remaining, reset = states[i].look(0)
  local retry = units < need and states[i].look(cost) or 0
  if retry > 0 then
    local out_for = leased_for(sold[i], now, ttl, string.match(lease, '^[^.]*'))
    if out_for > 0 then retry = math.min(retry, out_for) end
  end
  if blocked[i] > 0 and retry >= 0 then retry = -2 - math.max(retry, blocked[i]) end
  out[#out + 1], out[#out + 2], out[#out + 3] = remaining, reset, retry
end
return out
