--[[
  Decides a batch under one limit whose state is a row, in order, all at the same instant. It is built once for each
  algorithm, which ALGORITHM names.

  KEYS      the block list of the limit (ZSET member → blocked until, ms), the units that wait in its lines (see
            lines.note_units); then the key of each request
  ARGV[1]   until when this may be carried out, ms; '' only to look, whenever it comes. A clock that is given (by tests)
            follows behind it: `until@now`
  ARGV[2…]  the limit: quota, window in ms, and a third number: the burst of a bucket, the start of a calendar window in
            ms, else ''; then the cost of each request, one for all, or none where all cost 1

  Returns now, and nothing else if it came too late; then some numbers for each request, one after another. Allowed:
  remaining >= 0, reset in ms, and for a leaky bucket delay in ms. Denied: -1 - remaining, reset in ms, retry in ms;
  -1 ms means never, -2 - retry that the key is blocked. One request that is admitted is answered by one number, which
  makes the round trip a tenth shorter: (spent x 2^23 + reset) x 2^14 + how many ms before its last moment it was
  decided.
]]
local algorithm = require('limiter.algorithms.' .. ALGORITHM)
local call, try, pack, read, keys, args = redis.call, redis.pcall, struct.pack, struct.unpack, KEYS, ARGV

local until_ms, now = tonumber(args[1]), nil
if not until_ms and args[1] ~= '' then
  local ends, given = string.match(args[1], '^(%d*)@(.*)$')
  until_ms, now = tonumber(ends), tonumber(given)
end
local time = call('TIME')
local server_now = time[1] * 1000 + math.floor(time[2] / 1000)
now = now or server_now
if until_ms and now > until_ms then return { now } end

local quota, window, third = tonumber(args[2]), tonumber(args[3]), tonumber(args[4])
if ALGORITHM == 'fixed_window' and third then
  local limits = require 'limiter.limits'
  limits.check_calendar(now, third, window)
end
local one_cost = not args[6] and tonumber(args[5] or 1)
-- Whether any key is blocked under this limit, or anybody waits under it.
local is_any_held = call('EXISTS', keys[1], keys[2]) > 0

-- A table that need not grow for one request.
local out, size = { now, false, false }, 1
-- The row of `key`: a moment (nil: never used), and two numbers whose meaning is the algorithm's; the moment as it is
-- stored; and how long the row matters after the last request for it.
local key, at, count, other, stored_at, reset, is_changed
for i = 3, #keys + 1 do
  -- A key that comes several times, one after another, is read once and written once: before the next key, or at the
  -- end.
  if keys[i] ~= key then
    if is_changed then
      local row, left = pack('<ddd', at, count, other), stored_at and call('PTTL', key) or 0
      if left < reset + 3000 then
        local lifetimes = require 'redis.lifetimes'
        call('SET', key, row, 'PX', lifetimes.of(reset, left))
      else
        call('SETRANGE', key, '0', row)
      end
    end
    key = keys[i]
    if not key then break end
    -- A value of somebody else, of another type or length, counts as unused.
    local row = try('GET', key)
    at, count, other, is_changed = nil, 0, 0, false
    if row and #row == 24 then
      at, count, other = read('<ddd', row)
    elseif row then
      local foreign = require 'limiter.foreign'
      foreign.check(row)
    end
    stored_at = at
  end

  local cost = one_cost or tonumber(args[2 + i])
  local blocked_for, wait, charged = 0, 0, cost
  if is_any_held then
    local limits = require 'limiter.limits'
    blocked_for = math.max(0, limits.block_end(keys[1], key) - now)
    local units = limits.units_ahead(keys[2], key)
    if units > 0 and cost > 0 then
      local ahead = require 'limiter.ahead'
      local limit = { algorithm = ALGORITHM, quota = quota, window = window, third = third }
      wait = ahead.of_row(limit, now, units, cost, at, count, other)
    end
    -- It spends nothing, and if the limit would have admitted it, it reports its present state.
    local is_held = blocked_for > 0 or wait > 0
    if is_held and algorithm.measure(quota, window, third, now, cost, at, count, other) == 0 then charged = 0 end
  end

  local retry, remaining, delay, next_at, next_count, next_other
  retry, remaining, reset, delay, next_at, next_count, next_other =
    algorithm.measure(quota, window, third, now, charged, at, count, other)
  if until_ms and next_at and (next_count ~= count or next_at ~= at or next_other ~= other) then
    at, count, other, is_changed = next_at, next_count, next_other, true
  elseif until_ms and stored_at and retry ~= 0 and not is_changed then
    -- The limit was changed to a slower one: the state matters for longer than the key was to live.
    local left = call('PTTL', key)
    if left < reset then
      local lifetimes = require 'redis.lifetimes'
      call('PEXPIRE', key, lifetimes.of(reset, left))
    end
  end

  if wait > retry and retry >= 0 then retry = wait end
  if retry == 0 and blocked_for == 0 then
    out[size + 1], out[size + 2], size = remaining, reset, size + 2
    if algorithm.delays then out[size + 1], size = delay, size + 1 end
  else
    if blocked_for > 0 and retry >= 0 then retry = -2 - math.max(retry, blocked_for) end
    out[size + 1], out[size + 2], out[size + 3], size = -1 - remaining, reset, retry, size + 3
  end
end

-- Three numbers: one request, which was admitted and need not wait. Full is what could be spent at once.
if size == 3 and until_ms then
  local full = ALGORITHM == 'token_bucket' and quota > 0 and third or quota
  local spent, early = full - out[2], until_ms - now
  if spent > 0 and spent < 32768 and reset < 8388608 and early < 16384 then
    return (spent * 8388608 + reset) * 16384 + early
  end
end
return out
