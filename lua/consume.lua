--[[
  Decides a batch of requests under one policy, in order, each at the same instant: spends from all limits of a request or
  from none. What the batch shares is sent once.

  KEYS     the block list of each limit (ZSET member → blocked until, ms); then of request 1 the key of each limit, of request 2 …
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  until when this may be carried out, ms; '' for whenever it comes
  ARGV[3]  1 to spend, 0 only to look
  ARGV[4]  number of limits, then for each: algorithm, quota, window in ms, burst
  ARGV[…]  the cost of each request, or one for all

  Returns now, and nothing else if it came too late; then, for each request and each of its limits, numbers in a row. Allowed: remaining >= 0, reset in ms, and for a leaky
  bucket delay in ms. Denied: -1 - remaining, reset in ms, retry in ms; -1 ms means never, -2 - retry that the key is blocked. A
  request that could not be decided gives one text instead, the error.
]]
-- @include now_ms
-- @include read_limits
-- @include lifetime_ms
-- @include row_measures
-- @include load_rows
-- @include save_row
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

-- States by key, so that a key which stands in the batch twice is read once and written once.
local states = {}
local row_keys = {}
for i = width + 1, #KEYS do
  local key = KEYS[i]
  if row_measures[limits[(i - 1) % width + 1].algorithm] and not states[key] then
    states[key] = true
    row_keys[#row_keys + 1] = key
  end
end
load_rows(row_keys, states)

local changed = {}
local function change(key, limit, state, reset)
  if not state.limit then
    state.limit = limit
    changed[#changed + 1] = key
  end
  state.reset = reset
end

local function measure(limit, key, cost)
  local state = states[key]
  if not state then
    state = log_open(key, limit.window, now, spending)
    states[key] = state
  end
  if state.err then return state.err end
  local by_row = row_measures[limit.algorithm]
  if by_row then return { by_row(limit, now, cost, state.at, state.x, state.y) } end
  return { sliding_window(limit, now, cost, key, state) }
end

local function commit(limit, key, verdict, cost)
  local state = states[key]
  if row_measures[limit.algorithm] then
    if verdict[5] and (verdict[5] ~= state.at or verdict[6] ~= state.x or verdict[7] ~= state.y) then
      state.at, state.x, state.y = verdict[5], verdict[6], verdict[7]
      change(key, limit, state, verdict[3])
    end
  elseif cost > 0 then
    log_spend(state, now, cost)
    change(key, limit, state, verdict[3])
  end
end

local out = { now }
local size = 1
local function answer(limit, verdict, until_at)
  local retry, remaining = verdict[1], verdict[2]
  out[size + 2] = verdict[3]
  if retry == 0 and until_at <= now then
    out[size + 1] = remaining
    size = size + 2
    if limit.algorithm == 'leaky-bucket' then
      size = size + 1
      out[size] = verdict[4]
    end
    return
  end
  out[size + 1] = -1 - remaining
  if until_at > now and retry >= 0 then retry = -2 - math.max(retry, until_at - now) end
  out[size + 3] = retry
  size = size + 3
end

for first = width + 1, #KEYS, width do
  local cost = one_cost or tonumber(ARGV[costs_at + (first - 1) / width - 1])
  local verdicts, blocks = {}, {}
  local allowed = true
  local failure
  for j = 1, width do
    local key = KEYS[first + j - 1]
    local verdict = measure(limits[j], key, cost)
    if type(verdict) == 'string' then
      failure = verdict
      break
    end
    verdicts[j] = verdict
    blocks[j] = some_blocked and blocked_until(KEYS[j], key) or 0
    if verdict[1] ~= 0 or blocks[j] > now then allowed = false end
  end
  if failure then
    size = size + 1
    out[size] = failure
  else
    for j = 1, width do
      local limit, key = limits[j], KEYS[first + j - 1]
      -- Where nothing is spent, a limit that would have allowed it is told as it stands.
      if not allowed and verdicts[j][1] == 0 and cost > 0 then verdicts[j] = measure(limit, key, 0) end
      if spending then commit(limit, key, verdicts[j], allowed and cost or 0) end
      answer(limit, verdicts[j], blocks[j])
    end
  end
end

for _, key in ipairs(changed) do
  local state = states[key]
  local ttl = lifetime_ms(state.reset, clock)
  if row_measures[state.limit.algorithm] then save_row(key, state, ttl) else log_save(key, state, ttl) end
end
return out
