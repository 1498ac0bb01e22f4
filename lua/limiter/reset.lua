--[[
  Forgets what keys have spent.

  KEYS     the state of each limit; then, for each, its note
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  number of limits, then for each: algorithm, quota, window in ms, burst
  ARGV[…]  last: until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else nothing.
]]
-- @include now_ms
-- @include read_limits
-- @include expiry
-- @include load_rows
-- @include row_measures
-- @include row_settlements
-- @include note_save
local clock = ARGV[1]
local now = now_ms(clock)
-- @include steps/in_time
local count = tonumber(ARGV[2])
local limits = read_limits(3, count)

for i = 1, count do
  local key = KEYS[i]
  local settlement = row_settlements[limits[i].algorithm]
  local spent = false
  if settlement and settlement.notes_resets then
    local at, x, y, errors = {}, {}, {}, {}
    load_rows({ key }, at, x, y, errors)
    if not errors[1] then
      local _, _, reset = row_measures[limits[i].algorithm](limits[i], now, 0, at[1], x[1], y[1])
      spent = reset > 0
    end
  end
  redis.call('UNLINK', key)
  if spent then
    -- What is charged in the same ms is taken to come after it.
    note_save(KEYS[count + i], { cut_at = now - 1, refunded = 9007199254740991, left = 0, gaps = {} }, limits[i], expiry(clock, now))
  end
end
