--[[
  Forgets what keys have spent; those who wait book anew.

  KEYS     the state of each limit; then, for each, who waits: list of turn, cost, id; then, for each, its note
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
-- @include row_settlements
-- @include note_save
local clock = ARGV[1]
local now = now_ms(clock)
-- @include steps/in_time
local channel = ARGV[2]
local count = tonumber(ARGV[3])
local limits = read_limits(4, count)

for i = 1, count do
  local key, list = KEYS[i], KEYS[count + i]
  local settlement = row_settlements[limits[i].algorithm]
  if redis.call('UNLINK', key) == 1 and settlement and settlement.notes_resets then
    -- What is charged in the same ms is taken to come after it.
    note_save(KEYS[2 * count + i], { cut_at = now - 1, refunded = 9007199254740991, left = 0, gaps = {} }, limits[i], expiry(clock, now))
  end
  local waiting = waiting_now(list, now)
  if #waiting > 0 then
    replan(standing(limits[i], key, now, clock), list, waiting, 1, 0, now, channel, expiry(clock, now))
  end
end
