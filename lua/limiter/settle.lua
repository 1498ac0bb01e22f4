--[[
  Gives back at most some units of what one decision spent, dated at the moment of its charge, as far as they still count. Charges at moments that the
  clock showed twice, because it stepped back, are not settled: they may belong to either pass.

  KEYS     the state of each limit; then, for each, its note
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  units to give back to each limit
  ARGV[3]  the first moment that the clock shows twice, ms; '' for none
  ARGV[4]  the last such moment
  ARGV[5]  number of limits, then for each: algorithm, quota, window in ms, burst; then for each: charged at, cost, remaining, reset
  ARGV[…]  last: the last moment at which the script may act, ms

  Returns now, and nothing else, if it was too late; else nothing; an error of the first key that holds something else, before
  anything changed.
]]
-- @include now_ms
-- @include read_limits
-- @include read_receipts
-- @include expiry
-- @include open_state
local clock = ARGV[1]
local now = now_ms(clock)
-- @include steps/stop_if_late
local units = tonumber(ARGV[2])
local twice_from, twice_until = tonumber(ARGV[3]), tonumber(ARGV[4])
local count = tonumber(ARGV[5])
local limits, receipts_at = read_limits(6, count, now)
local receipts = read_receipts(receipts_at, count)

local states = {}
for i = 1, count do
  states[i] = open_state(limits[i], KEYS[i], now, expiry(clock, now), true)
  if states[i].err then return redis.error_reply(states[i].err) end
end
for i = 1, count do
  local charged_at = receipts[i].charged_at
  local doubtful = twice_from and charged_at >= twice_from and charged_at <= twice_until
  if not doubtful then
    states[i].settle(units, receipts[i], KEYS[count + i])
    states[i].save()
  end
end
