--[[
  Decides a batch of requests under a policy of several limits, in order, each at the same instant: spends from all
  limits of a request or from none. What the batch shares is sent once. (One limit alone is decided by consume_row or
  consume_log.)

  KEYS       the block list of each limit (ZSET member → blocked until, ms); the units that wait in the lines of the
             policy (see lines.note_units); then of request 1 the key of each limit, of request 2 …
  ARGV[1]    until when this may be carried out, and the clock: see consume_row
  ARGV[2]    number of limits, then for each: algorithm, quota, window in ms, third number: see consume_row
  ARGV[…]    the cost of each request, or one for all

  Returns now, and nothing else if it came too late; then, for each request and each of its limits, what consume_row
  returns.
]]
local call, try, pack, read, keys, args = redis.call, redis.pcall, struct.pack, struct.unpack, KEYS, ARGV

local until_ms, now = tonumber(args[1]), nil
if not until_ms and args[1] ~= '' then
  local ends, given = string.match(args[1], '^(%d*)@(.*)$')
  until_ms, now = tonumber(ends), tonumber(given)
end
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
if until_ms and now > until_ms then return { now } end

-- Functions are made for the algorithms of this policy only.
local function measure_of(algorithm)
  if algorithm == 'fixed_window' then
    local fixed_window = require 'limiter.algorithms.fixed_window'
    return fixed_window.measure
  elseif algorithm == 'sliding_counter' then
    local sliding_counter = require 'limiter.algorithms.sliding_counter'
    return sliding_counter.measure
  elseif algorithm == 'token_bucket' then
    local token_bucket = require 'limiter.algorithms.token_bucket'
    return token_bucket.measure
  elseif algorithm == 'leaky_bucket' then
    local leaky_bucket = require 'limiter.algorithms.leaky_bucket'
    return leaky_bucket.measure
  end
  return nil
end

-- Each limit, its state under the present key, and its result for the present request. A table that is made at once
-- costs less than one that grows.
local width, logs, sliding_window = tonumber(args[2]), nil, nil
local limits = {}
for j = 1, width do
  local algorithm, window, third = args[4 * j - 1], tonumber(args[4 * j + 1]), tonumber(args[4 * j + 2])
  local limit = {
    algorithm = algorithm,
    quota = tonumber(args[4 * j]),
    window = window,
    third = third,
    measure = measure_of(algorithm),
    delays = algorithm == 'leaky_bucket',
    -- A key that comes several times in a row is read once and written once: before the next key, or after the last.
    key = false,
    is_changed = false,
    log = false,
    found = false,
    at = false,
    count = 0,
    other = 0,
    next_at = false,
    next_count = 0,
    next_other = 0,
    retry = 0,
    remaining = 0,
    reset = 0,
    delay = 0,
    wait = 0,
    blocked_for = 0,
  }
  if not limit.measure and not logs then
    logs = require 'limiter.logs'
    sliding_window = require 'limiter.algorithms.sliding_window'
  end
  if algorithm == 'fixed_window' and third then
    local calendars = require 'limiter.limits'
    calendars.check_calendar(now, third, window)
  end
  limits[j] = limit
end

-- Writes the state of a key under a limit.
local function save(limit)
  local key, reset = limit.key, limit.reset
  if limit.log then
    logs.save(key, limit.log, limit.window)
    return
  end
  local row, left = pack('<ddd', limit.at, limit.count, limit.other), limit.found and call('PTTL', key) or 0
  if left < reset + 3000 then
    local lifetimes = require 'redis.lifetimes'
    call('SET', key, row, 'PX', lifetimes.of(reset, left))
  else
    call('SETRANGE', key, '0', row)
  end
end

local costs_at = 4 * width + 3
local one_cost = not args[costs_at + 1] and tonumber(args[costs_at])
local is_obstructed = call('EXISTS', unpack(keys, 1, width + 1)) > 0

local out, size = { now }, 1
for first = width + 1, #keys - 1, width do
  local cost = one_cost or tonumber(args[costs_at + (first - width - 1) / width])
  local units, is_allowed = 0, true
  if is_obstructed and cost > 0 then
    local lines = require 'limiter.limits'
    units = lines.units_ahead(keys[width + 1], table.concat(keys, ' ', first + 1, first + width))
  end

  for j = 1, width do
    local limit, key = limits[j], keys[first + j]
    local measure, quota, window, third = limit.measure, limit.quota, limit.window, limit.third
    if limit.key ~= key then
      if limit.is_changed then save(limit) end
      limit.key, limit.is_changed = key, false
      if measure then
        -- A value of somebody else counts as an unused row.
        local row = try('GET', key)
        local at, count, other = nil, 0, 0
        if row and #row == 24 then
          at, count, other = read('<ddd', row)
        elseif row then
          local foreign = require 'limiter.foreign'
          foreign.check(row)
        end
        limit.at, limit.count, limit.other, limit.found = at, count, other, at
      else
        limit.log = logs.open(key, window, now, until_ms ~= nil)
      end
    end

    if measure then
      limit.retry, limit.remaining, limit.reset, limit.delay, limit.next_at, limit.next_count, limit.next_other =
        measure(quota, window, third, now, cost, limit.at, limit.count, limit.other)
    else
      limit.retry, limit.remaining, limit.reset = sliding_window.measure(quota, window, now, cost, key, limit.log)
    end
    if is_obstructed then
      local blocks = require 'limiter.limits'
      limit.blocked_for, limit.wait = math.max(0, blocks.block_end(keys[j], key) - now), 0
      if units > 0 and measure then
        local ahead = require 'limiter.ahead'
        limit.wait = ahead.of_row(limit, now, units, cost, limit.at, limit.count, limit.other)
      elseif units > 0 then
        limit.wait = sliding_window.ahead(quota, window, now, units, cost, key, limit.log)
      end
    end
    if limit.retry ~= 0 or limit.wait > 0 or limit.blocked_for > 0 then is_allowed = false end
  end

  for j = 1, width do
    local limit = limits[j]
    local measure, quota, window, key = limit.measure, limit.quota, limit.window, limit.key
    -- If nothing is spent, a limit that would have allowed the request reports its present state.
    if not is_allowed and limit.retry == 0 and measure then
      limit.retry, limit.remaining, limit.reset, limit.delay, limit.next_at, limit.next_count, limit.next_other =
        measure(quota, window, limit.third, now, 0, limit.at, limit.count, limit.other)
    elseif not is_allowed and limit.retry == 0 then
      limit.retry, limit.remaining, limit.reset = sliding_window.measure(quota, window, now, 0, key, limit.log)
    end
    local retry, remaining, reset = limit.retry, limit.remaining, limit.reset

    if until_ms and measure then
      local at, count, other = limit.next_at, limit.next_count, limit.next_other
      if at and (count ~= limit.count or at ~= limit.at or other ~= limit.other) then
        limit.at, limit.count, limit.other, limit.is_changed = at, count, other, true
      elseif limit.found and retry ~= 0 and not limit.is_changed then
        -- Under a slower limit the state matters for longer than the key was to live.
        local left = call('PTTL', key)
        if left < reset then
          local lifetimes = require 'redis.lifetimes'
          call('PEXPIRE', key, lifetimes.of(reset, left))
        end
      end
    elseif until_ms and is_allowed and cost > 0 then
      if logs.spend(key, limit.log, now, window, cost) then limit.is_changed = true end
    end

    local blocked_for = limit.blocked_for
    if limit.wait > retry and retry >= 0 then retry = limit.wait end
    if retry == 0 and blocked_for == 0 then
      out[size + 1], out[size + 2], size = remaining, reset, size + 2
      if limit.delays then out[size + 1], size = limit.delay, size + 1 end
    else
      if blocked_for > 0 and retry >= 0 then retry = -2 - math.max(retry, blocked_for) end
      out[size + 1], out[size + 2], out[size + 3], size = -1 - remaining, reset, retry, size + 3
    end
  end
end
for j = 1, width do
  if limits[j].is_changed then save(limits[j]) end
end
return out
