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
-- @include expiry
-- @include row_measures
-- @include load_rows
-- @include save_rows
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

local rows, logs = {}, {}
for i = 1, #KEYS do
  if row_measures[limits[i].algorithm] then rows[#rows + 1] = i else logs[#logs + 1] = i end
end
local keys, at, x, y, errors = {}, {}, {}, {}, {}
for slot, i in ipairs(rows) do keys[slot] = KEYS[i] end
load_rows(keys, at, x, y, errors)
local opened = {}
for _, i in ipairs(logs) do
  opened[i] = log_open(KEYS[i], limits[i].window, now, true)
  if opened[i].err then return redis.error_reply(opened[i].err) end
end
for slot = 1, #rows do
  if errors[slot] then return redis.error_reply(errors[slot]) end
end

local expires_at = expiry(clock, now)
local changed, expire_at = {}, {}
for slot, i in ipairs(rows) do
  local limit = limits[i]
  local settle_row = units > 0 and charge_row or refund_row
  local new_at, new_x, new_y = settle_row(limit, now, math.abs(units), at[slot], x[slot], y[slot])
  if new_at then
    at[slot], x[slot], y[slot] = new_at, new_x, new_y
    local _, _, reset = row_measures[limit.algorithm](limit, now, 0, new_at, new_x, new_y)
    changed[#changed + 1] = slot
    expire_at[slot] = expires_at(reset)
  end
end
save_rows(changed, keys, at, x, y, expire_at)

for _, i in ipairs(logs) do
  if units > 0 then
    log_spend(opened[i], now, units)
    log_save(KEYS[i], opened[i], expires_at(limits[i].window))
  else
    log_refund(KEYS[i], opened[i], -units)
  end
end
