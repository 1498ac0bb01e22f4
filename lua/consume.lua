--[[
  Decides a batch of requests under one policy, in order, each at the same instant: spends from all limits of a request or
  from none. What the batch shares is sent once. Limits whose states are all rows are decided by consume_rows, one limit alone
  by the script of its algorithm.

  KEYS     the block list of each limit (ZSET member → blocked until, ms); then of request 1 the key of each limit, of request 2 …
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  until when this may be carried out, ms; '' for whenever it comes
  ARGV[3]  1 to spend, 0 only to look
  ARGV[4]  number of limits, then for each: algorithm, quota, window in ms, burst
  ARGV[…]  the cost of each request, or one for all

  Returns now, and nothing else if it came too late; then, for each request and each of its limits, numbers in a row. Allowed:
  remaining >= 0, reset in ms, and for a leaky bucket delay in ms. Denied: -1 - remaining, reset in ms, retry in ms; -1 ms means
  never, -2 - retry that the key is blocked. A request that could not be decided gives one text instead, the error.
]]
-- @include now_ms
-- @include read_limits
-- @include expiry
-- @include row_measures
-- @include load_rows
-- @include save_rows
-- @include log_open
-- @include sliding_window
-- @include log_spend
-- @include log_save
-- @include blocked_until
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
local spending = ARGV[3] == '1'
if valid_until and now > valid_until then return { now } end
local limits, costs_at = read_limits(5, tonumber(ARGV[4]))
local one_cost = #ARGV == costs_at and tonumber(ARGV[costs_at])
local width = #limits
local some_blocked = redis.call('EXISTS', unpack(KEYS, 1, width)) > 0

-- Every key has a slot, and a key that stands in the batch twice has one, so that it is read once and written once. State lies
-- in arrays by slot: a table for each key would cost more than all the arithmetic. Rows come first, because MGET reads them.
local keys, slots, slot_of = {}, {}, {}
local at, x, y, logs, errors = {}, {}, {}, {}, {}
local function give_slots(wanted)
  for j = 1, width do
    if (row_measures[limits[j].algorithm] ~= nil) == wanted then
      for i = width + j, #KEYS, width do
        local key = KEYS[i]
        local slot = slot_of[key]
        if not slot then
          slot = #keys + 1
          keys[slot] = key
          slot_of[key] = slot
        end
        slots[i] = slot
      end
    end
  end
end
give_slots(true)
load_rows(keys, at, x, y, errors)
give_slots(false)

-- How one request fares with each limit.
local retry, remaining, reset, delay, next_at, next_x, next_y, until_at = {}, {}, {}, {}, {}, {}, {}, {}
local function measure(j, slot, cost)
  local limit = limits[j]
  local by_row = row_measures[limit.algorithm]
  if by_row then
    retry[j], remaining[j], reset[j], delay[j], next_at[j], next_x[j], next_y[j] =
      by_row(limit, now, cost, at[slot], x[slot], y[slot])
    return
  end
  local log = logs[slot]
  if not log then
    log = log_open(keys[slot], limit.window, now, spending)
    logs[slot], errors[slot] = log, log.err
    if log.err then return end
  end
  retry[j], remaining[j], reset[j], delay[j] = sliding_window(limit, now, cost, keys[slot], log)
end

local changed_rows, changed_logs, expire_at = {}, {}, {}
local expires_at = expiry(clock, now)
local function commit(j, slot, cost)
  local log = logs[slot]
  if log then
    if cost == 0 then return end
    log_spend(keys[slot], log, now, cost)
    if not expire_at[slot] then changed_logs[#changed_logs + 1] = slot end
  else
    local new_at = next_at[j]
    if not new_at or (new_at == at[slot] and next_x[j] == x[slot] and next_y[j] == y[slot]) then return end
    at[slot], x[slot], y[slot] = new_at, next_x[j], next_y[j]
    if not expire_at[slot] then changed_rows[#changed_rows + 1] = slot end
  end
  expire_at[slot] = expires_at(reset[j])
end

local out = { now }
local size = 1
local function answer(j)
  out[size + 2] = reset[j]
  local wait = retry[j]
  if wait == 0 and until_at[j] <= now then
    out[size + 1] = remaining[j]
    size = size + 2
    if limits[j].algorithm == 'leaky-bucket' then
      size = size + 1
      out[size] = delay[j]
    end
    return
  end
  out[size + 1] = -1 - remaining[j]
  if until_at[j] > now and wait >= 0 then wait = -2 - math.max(wait, until_at[j] - now) end
  out[size + 3] = wait
  size = size + 3
end

local cost = one_cost
for first = width + 1, #KEYS, width do
  if not one_cost then cost = tonumber(ARGV[costs_at + (first - 1) / width - 1]) end
  local allowed = true
  local failure
  for j = 1, width do
    local i = first + j - 1
    local slot = slots[i]
    if not errors[slot] then measure(j, slot, cost) end
    if errors[slot] then
      failure = errors[slot]
      break
    end
    until_at[j] = some_blocked and blocked_until(KEYS[j], KEYS[i]) or 0
    if retry[j] ~= 0 or until_at[j] > now then allowed = false end
  end
  if failure then
    size = size + 1
    out[size] = failure
  else
    for j = 1, width do
      local slot = slots[first + j - 1]
      -- Where nothing is spent, a limit that would have allowed it is told as it stands.
      if not allowed and retry[j] == 0 and cost > 0 then measure(j, slot, 0) end
      if spending then commit(j, slot, allowed and cost or 0) end
      answer(j)
    end
  end
end

save_rows(changed_rows, keys, at, x, y, expire_at)
for _, slot in ipairs(changed_logs) do log_save(keys[slot], logs[slot], expire_at[slot]) end
for j = 1, width do
  if limits[j].quota > 9007199254740928 then
    -- @include steps/spell
    break
  end
end
return out
