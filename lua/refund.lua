--[[
  Gives units back, at most what is spent, newest first; a window that runs goes on.

  KEYS     one a limit
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  cost, to give back to each limit
  ARGV[3]  number of limits, then for each: algorithm, quota, window in ms, burst

  Returns nothing; an error of the first key that holds something else, before anything changed.
]]
-- @include now_ms
-- @include read_limits
-- @include lifetime_ms
-- @include row_measures
-- @include load_rows
-- @include save_row
-- @include refund_row
-- @include log_open
-- @include log_refund
local clock = ARGV[1]
local now = now_ms(clock)
local cost = tonumber(ARGV[2])
local limits = read_limits(4, tonumber(ARGV[3]))

local row_keys, states = {}, {}
for i, key in ipairs(KEYS) do
  if row_measures[limits[i].algorithm] then row_keys[#row_keys + 1] = key end
end
load_rows(row_keys, states)
for i, key in ipairs(KEYS) do
  states[key] = states[key] or log_open(key, limits[i].window, now, true)
  if states[key].err then return redis.error_reply(states[key].err) end
end

for i, key in ipairs(KEYS) do
  local limit, state = limits[i], states[key]
  local measure = row_measures[limit.algorithm]
  if not measure then
    log_refund(key, state, cost)
  elseif refund_row(limit, now, cost, state) then
    local _, _, reset = measure(limit, now, 0, state.at, state.x, state.y)
    save_row(key, state, lifetime_ms(reset, clock))
  end
end
