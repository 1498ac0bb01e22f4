--[[
  Blocks a member under each limit until a moment, or unblocks it.

  KEYS     the block list of each limit: ZSET member → blocked until, ms; then, for each, the member: the state's key
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  how long, ms; 0 to unblock
  ARGV[…]  last: the last moment at which the script may act, ms

  Returns now, and nothing else, if it was too late; else nothing.
]]
-- @include now_ms
-- @include expiry
local clock = ARGV[1]
local now = now_ms(clock)
-- @include steps/stop_if_late
local duration = tonumber(ARGV[2])

for i = 1, #KEYS / 2 do
  local list, member = KEYS[i], KEYS[#KEYS / 2 + i]
  if duration > 0 then
    redis.call('ZADD', list, now + duration, member)
    -- A few at a time, so that no call is long. A block is kept for a second after its end, so that a clock that steps back still finds it.
    local free = redis.call('ZRANGEBYSCORE', list, '-inf', now - 1000, 'LIMIT', 0, 16)
    if #free > 0 then redis.call('ZREM', list, unpack(free)) end
    local last = redis.call('ZRANGE', list, -1, -1, 'WITHSCORES')
    redis.call('PEXPIREAT', list, expiry(clock, now)(last[2] - now))
  else
    redis.call('ZREM', list, member)
  end
end
