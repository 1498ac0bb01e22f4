--[[
  Spends now, or books the earliest moment at which it fits after everyone who has booked before: first come, first served. Books
  nothing that would come later than the caller waits.

  KEYS[1]  state of the key under the limit: a log or a row
  KEYS[2]  who waits: list of turn, cost, id
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  cost
  ARGV[3]  how long the caller waits, ms; -1 for ever
  ARGV[4]  id of the waiter, "process/number"
  ARGV[5]  1, then the limit: algorithm, quota, window in ms, burst

  Returns wait in ms, then remaining and reset as they stand after it. A wait longer than the caller's was not booked; -1: it can
  never fit.
]]
-- @include now_ms
-- @include read_limits
-- @include expiry
-- @include standing
-- @include waiting_now
-- @include waiter_pack
local key, list = KEYS[1], KEYS[2]
local clock = ARGV[1]
local now = now_ms(clock)
local cost = tonumber(ARGV[2])
local patience = tonumber(ARGV[3])
local id = ARGV[4]
local limit = read_limits(6, 1)[1]

local state = standing(limit, key, now, clock)
if state.err then return redis.error_reply(state.err) end
local wait, remaining, reset, _ = state.measure(cost)
if wait < 0 or (patience >= 0 and wait > patience) then return { wait, remaining, reset } end
state.book(cost, wait)
state.save()
if wait > 0 then
  waiting_now(list, now)
  redis.call('RPUSH', list, waiter_pack(now + wait, cost, id))
  redis.call('PEXPIREAT', list, expiry(clock, now)(wait))
end
_, remaining, reset = state.measure(0)
return { wait, remaining, reset }
