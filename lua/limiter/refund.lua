--[[
  Gives units back, at most what is spent: a log's oldest, a counter's or bucket's newest. A running window continues.

  KEYS     the state of each limit; then, for each, its note
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  units to give back to each limit
  ARGV[3]  number of limits, then for each: algorithm, quota, window in ms, burst
  ARGV[…]  last: the last moment at which the script may act, ms

  Returns now, and nothing else, if it was too late; else nothing; an error of the first key that holds something else, before
  anything changed.
]]
-- @include now_ms
-- @include read_limits
-- @include expiry
-- @include open_state
local clock = ARGV[1]
local now = now_ms(clock)
-- @include steps/stop_if_late
local units = tonumber(ARGV[2])
local count = tonumber(ARGV[3])
local limits = read_limits(4, count, now)

local states = {}
for i = 1, count do
  states[i] = open_state(limits[i], KEYS[i], now, expiry(clock, now))
  if states[i].err then return redis.error_reply(states[i].err) end
end
for i = 1, count do
  states[i].refund(limits[i], units, KEYS[count + i])
  states[i].save()
end
