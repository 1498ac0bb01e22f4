--[[
  Decides a batch of requests under one policy, in order, each at the same instant: spends from all limits of a request or
  from none. What the batch shares is sent once.

  KEYS     of request 1, one a limit, then of request 2, …
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  1 to spend, 0 only to look
  ARGV[3]  number of limits, then for each: algorithm, quota, window in ms, burst
  ARGV[…]  the cost of each request, or one for all

  Returns, for each request and each of its limits, numbers in a row. Allowed: remaining ≥ 0, reset in ms, and for a leaky
  bucket delay in ms. Denied: -1 - remaining, reset in ms, retry in ms. -1 ms means never. A request that could not be decided
  gives one text instead, the error.
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
local clock = ARGV[1]
local now = now_ms(clock)
local spending = ARGV[2] == '1'
local limits, costs_at = read_limits(4, tonumber(ARGV[3]))
local one_cost = #ARGV == costs_at and tonumber(ARGV[costs_at])
local width = #limits

-- States by key, so that a key which stands in the batch twice is read once and written once.
local states = {}
local row_keys = {}
for i = 1, #KEYS do
  local limit = limits[(i - 1) % width + 1]
  if row_measures[limit.algorithm] and not states[KEYS[i]] then
    states[KEYS[i]] = true
    row_keys[#row_keys + 1] = KEYS[i]
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

local out = {}
local size = 0
for first = 1, #KEYS, width do
  local cost = one_cost or tonumber(ARGV[costs_at + (first - 1) / width])
  local measured = {}
  local allowed = true
  local failure
  for j = 1, width do
    local limit, key = limits[j], KEYS[first + j - 1]
    local state = states[key]
    local measure = row_measures[limit.algorithm]
    if not state then
      state = log_open(key, limit.window, now, spending)
      states[key] = state
    end
    if state.err then
      failure = state.err
      break
    end
    if measure then
      measured[j] = { measure(limit, now, cost, state.at, state.x, state.y) }
    else
      measured[j] = { sliding_window(limit, now, cost, key, state) }
    end
    if measured[j][1] ~= 0 then allowed = false end
  end
  if failure then
    size = size + 1
    out[size] = failure
  else
    for j = 1, width do
      local limit, key, verdict = limits[j], KEYS[first + j - 1], measured[j]
      local state = states[key]
      local measure = row_measures[limit.algorithm]
      if not allowed and verdict[1] == 0 and cost > 0 then
        -- Nothing is spent, so a limit that would have allowed it is told as it stands.
        if measure then
          verdict = { measure(limit, now, 0, state.at, state.x, state.y) }
        else
          verdict = { sliding_window(limit, now, 0, key, state) }
        end
      end
      local retry, remaining, reset, delay = verdict[1], verdict[2], verdict[3], verdict[4]
      if spending then
        if not measure then
          if allowed and cost > 0 then
            log_spend(state, now, cost)
            change(key, limit, state, reset)
          end
        elseif verdict[5] and (verdict[5] ~= state.at or verdict[6] ~= state.x or verdict[7] ~= state.y) then
          state.at, state.x, state.y = verdict[5], verdict[6], verdict[7]
          change(key, limit, state, reset)
        end
      end
      out[size + 2] = reset
      if retry == 0 then
        out[size + 1] = remaining
        size = size + 2
        if limit.algorithm == 'leaky-bucket' then
          size = size + 1
          out[size] = delay
        end
      else
        out[size + 1] = -1 - remaining
        out[size + 3] = retry
        size = size + 3
      end
    end
  end
end

for _, key in ipairs(changed) do
  local state = states[key]
  local ttl = lifetime_ms(state.reset, clock)
  if row_measures[state.limit.algorithm] then save_row(key, state, ttl) else log_save(key, state, ttl) end
end
return out
