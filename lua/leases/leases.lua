--[[
  Takes back the unspent units of a lease, once, under each limit that still lists it. `sold`: for each limit a ZSET of
  lease → the moment of its sale in ms, plus half a ms after its return. `receipts`: what the lease was charged under
  each limit. If a lease was sold later than now, the clock was set back: then the ages of all leases are unknown, and
  no units are taken back.
]]
local function return_lease(lease, units, sold_at, limits, states, notes, sold, receipts, now)
  for i = 1, #limits do
    local newest = redis.call('ZRANGE', sold[i], '-1', '-1', 'WITHSCORES')[2]
    if newest and math.floor(tonumber(newest)) > now then
      redis.call('DEL', sold[i])
    elseif newest and tonumber(redis.call('ZSCORE', sold[i], lease) or -1) == sold_at then
      redis.call('ZADD', sold[i], string.format('%.1f', sold_at + 0.5), lease)
      local returnable = functions_of(limits[i].algorithm).returnable
      local back = returnable and returnable(limits[i], units, now - sold_at) or units
      receipts[i].leased = true
      if back > 0 then states[i].settle(back, receipts[i], notes[i]) end
    end
  end
end

--[[
  In how many ms, at most one ttl, units come back from leases of others than `owner` at the latest; 0: none are out.
  `sold`: the ZSET of leases, see return_lease. A process gives back what it has not spent within a ttl after the end of
  a lease, or within 50 ms. Looks at the newest leases only.
]]
local function leased_for(sold, now, ttl, owner)
  local lasts = ttl + math.max(ttl, 50)
  local since = '(' .. string.format('%.0f', now - lasts)
  local until_now = string.format('%.0f', now)
  local leases = redis.call('ZRANGE', sold, until_now, since, 'BYSCORE', 'REV', 'LIMIT', '0', '64', 'WITHSCORES')
  for i = 1, #leases, 2 do
    local sold_at = tonumber(leases[i + 1])
    local is_out = sold_at == math.floor(sold_at)
    if is_out and string.match(leases[i], '^[^.]*') ~= owner then return math.min(ttl, sold_at + lasts - now) end
  end
  return 0
end

--[[
  Sells units of a key as a lease: a process may spend them without asking. All limits sell the same, or none sells
  anything. First takes back what was left of the lease before.

  KEYS      the block list of each limit (ZSET member → blocked until, ms); the units that wait in the lines of the
            policy (see line_note_units); the state of each limit; the note of each; the leases of each (ZSET lease →
            when it was sold, ms; see return_lease); the line in which requests wait for these limits together, three
            keys: see line_open
  ARGV[1]   now, ms; '' for the server's clock
  ARGV[2]   how long the lease lasts at most, ms
  ARGV[3]   units of one request
  ARGV[4]   units that are needed now; ARGV[5] that are wanted
  ARGV[6]   the lease, whose name begins with its owner and a dot; ARGV[7] the one whose units come back, '' for none;
            ARGV[8] how many; ARGV[9] when it was sold, ms
  ARGV[10]  what the channel of every process begins with on which it hears of its waiters
  ARGV[11]  number of limits, then for each: algorithm, quota, window in ms, burst; then if a lease comes back for each:
            charged at, cost, remaining, reset
  ARGV[…]   last: the last moment at which the script may act, ms

  Returns now, and nothing else, if it came too late; else now, the units sold (-1: no lease can be sold now), how many
  ms they last, then for each limit remaining and reset in ms, and retry as consume returns it: when one request fits, 0
  if it does; if others hold leases, no later than their units come back.
]]
function lease_buy()
  local clock = ARGV[1]
  local now = now_ms(clock)
  if is_late(now) then return { now } end
  local server_now = clock == '' and now or now_ms('')
  local call = redis.call
  local ttl, cost, need, want = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
  local lease, returned, unspent, returned_sold_at = ARGV[6], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
  local channel, count = ARGV[10], tonumber(ARGV[11])
  local limits, receipts_at = read_limits(12, count, now)
  local expires_at = expiry(clock, now)
  local waiting, keys = KEYS[count + 1], { unpack(KEYS, count + 2, 2 * count + 1) }
  local notes, sold = { unpack(KEYS, 2 * count + 2, 3 * count + 1) }, { unpack(KEYS, 3 * count + 2, 4 * count + 1) }
  local blocks, line_at, waiting_units = { unpack(KEYS, 1, count) }, 4 * count + 2, waiting

  local states = {}
  for i = 1, count do
    states[i] = open_state(limits[i], keys[i], now, expires_at)
    if states[i].err then return redis.error_reply(states[i].err) end
  end
  if returned ~= '' then
    return_lease(returned, unspent, returned_sold_at, limits, states, notes, sold, read_receipts(receipts_at, count), now)
    for i = 1, count do states[i].save() end
    if redis.call('EXISTS', KEYS[line_at]) == 1 then
      wake_waiters(line_at, channel, waiting_units, limits, keys, blocks, now, clock)
    end
  end

  -- The purchase was carried out before: its answer is in flight, or lost with its units. A second sale could lead to a
  -- second return.
  if call('ZSCORE', sold[1], lease) then return { now, -1, 0 } end

  local blocks_or_waiters = call('EXISTS', unpack(KEYS, 1, count + 1)) > 0
  local line_name = table.concat(keys, ' ')
  -- @inline decision.read_ahead
  local blocked, room, lasts = {}, 9007199254740991, ttl
  for i = 1, count do
    blocked[i] = blocks_or_waiters and block_end(KEYS[i], keys[i]) - now or 0
    local units, ms = states[i].room(ttl)
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
end

--[[
  Tells for how long units of keys may be out on leases.

  KEYS      the leases of each key under each limit (ZSET lease → when it was sold, ms; see return_lease)
  ARGV[1]   now, ms; '' for the server's clock
  ARGV[2]   how long a lease lasts at most, ms
  ARGV[3]   the owner that asks: its own leases do not count
  ARGV[4]   the last moment at which the script may act, ms

  Returns now, and nothing else, if it came too late; else now, then for each key what leased_for returns.
]]
function lease_out()
  local now = now_ms(ARGV[1])
  if is_late(now) then return { now } end
  local ttl, owner = tonumber(ARGV[2]), ARGV[3]
  local out = { now }
  for i = 1, #KEYS do out[i + 1] = leased_for(KEYS[i], now, ttl, owner) end
  return out
end
