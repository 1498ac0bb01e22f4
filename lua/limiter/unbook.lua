--[[
  Gives a booking back, and lets those behind it move up.

  KEYS[1]  state of the key under the limit: a log or a row
  KEYS[2]  who waits: list of turn, cost, id
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  cost of the booking
  ARGV[3]  what the channel of every process begins with
  ARGV[4]  id of the waiter; one whose turn has come already gives back what it spent
  ARGV[5]  1, then the limit: algorithm, quota, window in ms, burst

  Returns nothing.
]]
-- @include now_ms
-- @include read_limits
-- @include expiry
-- @include standing
-- @include waiting_now
-- @include replan
local key, list = KEYS[1], KEYS[2]
local clock = ARGV[1]
local now = now_ms(clock)
local cost = tonumber(ARGV[2])
local channel = ARGV[3]
local id = ARGV[4]
local limit = read_limits(6, 1)[1]

local state = standing(limit, key, now, clock)
if state.err then return redis.error_reply(state.err) end
local waiting = waiting_now(list, now)
local first = 1
for i, waiter in ipairs(waiting) do
  if waiter.id == id then
    first = i
    table.remove(waiting, i)
    break
  end
end
replan(state, list, waiting, first, cost, now, channel, expiry(clock, now))
