--[[
  Spends now, or books the earliest moment at which it fits after everyone who has booked before: first come, first served. Books
  nothing that would come later than the caller waits.

  KEYS[1]  state of the key under the limit: a log or a row
  KEYS[2]  who waits: list of turn, cost, id
  KEYS[3]  the block list of the limit: ZSET member → blocked until, ms
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  cost
  ARGV[3]  how long the caller waits, ms; -1 for ever
  ARGV[4]  id of the waiter, "process/number"
  ARGV[5]  1, then the limit: algorithm, quota, window in ms, burst

  Returns wait in ms, then remaining and reset as they stand after it, and for how long the key is blocked. A wait longer than the
  caller's was not booked; -1: it can never fit. Nothing is booked for a key that is blocked.
]]
-- @include now_ms
-- @include read_limits
-- @include expiry
-- @include standing
-- @include waiting_now
-- @include waiter_pack
-- @include blocked_until
local key, list, block_list = KEYS[1], KEYS[2], KEYS[3]
local clock = ARGV[1]
local now = now_ms(clock)
local cost = tonumber(ARGV[2])
local patience = tonumber(ARGV[3])
local id = ARGV[4]
local limit = read_limits(6, 1)[1]

local function answer(...)
  local out = { ... }
  -- @include steps/spell
  return out
end

local state = standing(limit, key, now, clock)
if state.err then return redis.error_reply(state.err) end
local wait, remaining, reset, _ = state.measure(cost)
local blocked = wait < 0 and 0 or math.max(0, blocked_until(block_list, key) - now)
if blocked > 0 then
  -- As it stands: what would have fitted is not spent.
  _, remaining, reset = state.measure(0)
  return answer(math.max(wait, blocked), remaining, reset, blocked)
end
if wait < 0 or (patience >= 0 and wait > patience) then return answer(wait, remaining, reset, 0) end
-- A list that is something else fails here, before anything is written.
if wait > 0 then waiting_now(list, now) end
state.book(cost, wait)
state.save()
if wait > 0 then
  redis.call('RPUSH', list, waiter_pack(now + wait, cost, id))
  redis.call('PEXPIREAT', list, expiry(clock, now)(wait))
end
_, remaining, reset = state.measure(0)
return answer(wait, remaining, reset, 0)
