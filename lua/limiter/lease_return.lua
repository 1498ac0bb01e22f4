--[[
  Takes back the unspent units of a lease.

  KEYS      the state of each limit; the note of each; the leases of each (ZSET lease → when it was sold, ms)
  ARGV[1]   now, ms; '' for the server's clock
  ARGV[2]   the lease; ARGV[3] how many units; ARGV[4] when it was sold, ms
  ARGV[5]   number of limits, then for each: algorithm, quota, window in ms, burst; then for each: charged at, cost, remaining, reset
  ARGV[…]   last: the last moment at which the script may act, ms

  Returns now, and nothing else, if it was too late; else nothing.
]]
-- @include now_ms
-- @include read_limits
-- @include read_receipts
-- @include expiry
-- @include open_state
-- @include return_lease
local clock = ARGV[1]
local now = now_ms(clock)
-- @include steps/stop_if_late
local lease, unspent, sold_at = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local count = tonumber(ARGV[5])
local limits, receipts_at = read_limits(6, count, now)
local states = {}
for i = 1, count do
  states[i] = open_state(limits[i], KEYS[i], now, expiry(clock, now), true)
  if states[i].err then return redis.error_reply(states[i].err) end
end
local notes, sold = { unpack(KEYS, count + 1, 2 * count) }, { unpack(KEYS, 2 * count + 1) }
return_lease(lease, unspent, sold_at, limits, states, notes, sold, read_receipts(receipts_at, count), now)
for i = 1, count do states[i].save() end
