--[[
  Sells units of a key as a lease: a process may spend them without asking. All limits sell the same, or none sells
  anything. First takes back what was left of the lease before.

  KEYS      the block list of each limit (ZSET member → blocked until, ms); the units that wait in the lines of the
            policy (see lines.note_units); the state of each limit; the note of each; the leases of each (ZSET lease →
            when it was sold, ms; see leases.take_back); the line in which requests wait for these limits together,
            three keys: see lines.open
  ARGV[1]   now, ms; '' for the server's clock
  ARGV[2]   how long the lease lasts at most, ms
  ARGV[3]   units of one request
  ARGV[4]   units that are needed now; ARGV[5] that are wanted
  ARGV[6]   the lease, whose name begins with its owner and a dot; ARGV[7] the one whose units come back, '' for none;
            ARGV[8] how many; ARGV[9] when it was sold, ms
  ARGV[10]  what the channel of every process begins with on which it hears of its waiters
  ARGV[11]  number of limits, then for each: see limits.read; then if a lease comes back for each: see
            limits.read_receipts
  ARGV[…]   last: the last moment at which the script may act, ms

  Returns now, and nothing else, if it came too late; else now, the units sold (-1: no lease can be sold now), how many
  ms they last, then for each limit remaining and reset in ms, and retry as consume_row returns it: when one request
  fits, 0 if it does; if others hold leases, no later than their units come back.
]]
local leases = require 'leases.leases'
local limits = require 'limiter.limits'
local states = require 'limiter.states'
local timely = require 'redis.timely'

local now = timely.now_ms(ARGV[1])
if timely.is_late(now) then return { now } end
local call = redis.call
local ttl, cost, need, want = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local lease, returned, unspent, returned_sold_at = ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local channel, count = ARGV[10], tonumber(ARGV[11])
local list, receipts_at = limits.read(12, count, now)
local waiting_units, keys = KEYS[count + 1], { unpack(KEYS, count + 2, 2 * count + 1) }
local notes, sold = { unpack(KEYS, 2 * count + 2, 3 * count + 1) }, { unpack(KEYS, 3 * count + 2, 4 * count + 1) }
local blocks, line_at = { unpack(KEYS, 1, count) }, 4 * count + 2

local opened = {}
for i = 1, count do
  opened[i] = states.open(list[i], keys[i], now)
end
if returned ~= '' then
  local receipts = limits.read_receipts(receipts_at, count)
  leases.take_back(returned, unspent, returned_sold_at, list, opened, notes, sold, receipts, now)
  for i = 1, count do opened[i].save() end
  if redis.call('EXISTS', KEYS[line_at]) == 1 then
    local line_capacity = require 'limiter.line_capacity'
    line_capacity.wake(line_at, channel, waiting_units, list, keys, blocks, now)
  end
end

-- The purchase was carried out before: its answer is in flight, or lost with its units. A second sale could lead to a
-- second return.
if call('ZSCORE', sold[1], lease) then return { now, -1, 0 } end

local is_obstructed = call('EXISTS', unpack(KEYS, 1, count + 1)) > 0
local ahead = is_obstructed and limits.units_ahead(waiting_units, table.concat(keys, ' ')) or 0
local blocked, room, lasts = {}, 9007199254740991, ttl
for i = 1, count do
  blocked[i] = is_obstructed and limits.block_end(KEYS[i], keys[i]) - now or 0
  local units, ms = opened[i].room(ttl)
  room, lasts = math.min(room, blocked[i] > 0 and 0 or units), math.min(lasts, ms)
end
-- Waiters come first, and a window that ends now is not worth a lease.
if ahead > 0 or lasts < 2 then return { now, -1, 0 } end

-- A quarter of what is left, so that others find some; all of it shortly before a window ends, because what is left
-- then is lost.
local share = math.min(1, ttl / (4 * lasts))
local units = math.min(want, math.max(math.min(need, room), math.floor(room * share)))
for i = 1, count do
  if units > 0 then
    opened[i].buy(units, ttl, notes[i])
    call('ZADD', sold[i], now, lease)
    call('ZREMRANGEBYSCORE', sold[i], '-inf', string.format('%.0f', now - ttl - 10000))
    call('PEXPIRE', sold[i], ttl + 15000)
  end
  opened[i].save()
end
local out = { now, units, lasts }
for i = 1, count do
  local _, remaining, reset = opened[i].look(0)
  local retry = units < need and opened[i].look(cost) or 0
  if retry > 0 then
    local out_for = leases.out_for(sold[i], now, ttl, string.match(lease, '^[^.]*'))
    if out_for > 0 then retry = math.min(retry, out_for) end
  end
  if blocked[i] > 0 and retry >= 0 then retry = -2 - math.max(retry, blocked[i]) end
  out[#out + 1], out[#out + 2], out[#out + 3] = remaining, reset, retry
end
return out
