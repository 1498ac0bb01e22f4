--[[
  Forgets what keys have spent; those who wait book anew.

  KEYS     the state of each limit; then, for each, who waits: list of turn, cost, id
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  what the channel of every process begins with
  ARGV[3]  number of limits, then for each: algorithm, quota, window in ms, burst
  ARGV[…]  last: until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else nothing.
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
local channel = ARGV[2]
local count = tonumber(ARGV[3])
local limits = read_limits(4, count)

for i = 1, count do
  local key, list = KEYS[i], KEYS[count + i]
  redis.call('UNLINK', key)
  local waiting = waiting_now(list, now)
  if #waiting > 0 then
    replan(standing(limits[i], key, now, clock), list, waiting, 1, 0, now, channel, expiry(clock, now))
  end
end
