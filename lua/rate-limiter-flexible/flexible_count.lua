--[[
  Adds points to a plain counter with a lifetime, as rate-limiter-flexible keeps it. Blocks the key when its count comes into a range.

  KEYS[1]  the counter
  ARGV[1]  points to add
  ARGV[2]  lifetime of a counter that has none, ms; 0: none
  ARGV[3]  how long the key is blocked from now on, ms; 0: never
  ARGV[4]  blocked if the count is at least this
  ARGV[5]  and at most this
  ARGV[6]  until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else now, the count, the ms it still lives (-1: without end).
]]
-- @include now_ms
local key = KEYS[1]
local lifetime = tonumber(ARGV[2])
local block = tonumber(ARGV[3])
local low = tonumber(ARGV[4])
local high = tonumber(ARGV[5])
local now = now_ms('')
-- @include steps/in_time
local count = redis.call('INCRBY', key, ARGV[1])
local left = redis.call('PTTL', key)
if block > 0 and count >= low and count <= high then
  redis.call('PEXPIRE', key, ARGV[3])
  left = block
elseif left < 0 and lifetime > 0 then
  redis.call('PEXPIRE', key, ARGV[2])
  left = lifetime
end
return { now, count, left }
