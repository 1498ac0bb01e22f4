--[[
  Corrects what keys have spent, by a signed amount: gives units back, at most what is spent, newest first, while a window that
  runs goes on; or charges units whether they fit or not.

  KEYS     the state of each limit; then, for each, who waits: list of turn, cost, id
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  units to charge each limit; negative to give back
  ARGV[3]  what the channel of every process begins with
  ARGV[4]  number of limits, then for each: algorithm, quota, window in ms, burst
  ARGV[…]  last: until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else nothing; an error of the first key that holds something else, before
  anything changed.
]]
-- @include now_ms
-- @include read_limits
-- @include expiry
-- @include standing
-- @include waiting_now
-- @include replan
local clock = ARGV[1]
local now = now_ms(clock)
-- @include steps/in_time
local units = tonumber(ARGV[2])
local channel = ARGV[3]
local count = tonumber(ARGV[4])
local limits = read_limits(5, count)

local states = {}
for i = 1, count do
  states[i] = standing(limits[i], KEYS[i], now, clock)
  if states[i].err then return redis.error_reply(states[i].err) end
end
for i = 1, count do
  local state, list = states[i], KEYS[count + i]
  if units > 0 then
    state.charge(units)
    state.save()
  else
    replan(state, list, waiting_now(list, now), 1, -units, now, channel, expiry(clock, now))
  end
end
