--[[
  Corrects what keys have spent, by a signed amount: gives units back, at most what is spent, newest first, while a window that
  runs goes on; or charges units whether they fit or not.

  KEYS     one a limit
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  units to charge each limit; negative to give back
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
-- @include charge_row
-- @include log_open
-- @include log_refund
-- @include log_spend
-- @include log_save
local clock = ARGV[1]
local now = now_ms(clock)
local units = tonumber(ARGV[2])
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

local function settle_row(key, limit, row)
  if units > 0 then
    charge_row(limit, now, units, row)
  elseif not refund_row(limit, now, -units, row) then
    return
  end
  local _, _, reset = row_measures[limit.algorithm](limit, now, 0, row.at, row.x, row.y)
  save_row(key, row, lifetime_ms(reset, clock))
end

local function settle_log(key, limit, log)
  if units > 0 then
    log_spend(log, now, units)
    log_save(key, log, lifetime_ms(limit.window, clock))
  else
    log_refund(key, log, -units)
  end
end

for i, key in ipairs(KEYS) do
  local settle = row_measures[limits[i].algorithm] and settle_row or settle_log
  settle(key, limits[i], states[key])
end
