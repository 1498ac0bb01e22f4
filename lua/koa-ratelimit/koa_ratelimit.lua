--[[
  Counts a request as koa-ratelimit does, in the sorted set that it keeps: a member for each request, whose score is the moment, ms.
  The moment is the server's, and two requests never share a member.

  KEYS[1]  the requests of one id
  ARGV[1]  the length of a span, ms
  ARGV[2]  the requests allowed in any span
  ARGV[3]  until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else now, the requests left (-1: refused) and when the oldest one ends to count, ms.
]]
local key = KEYS[1]
local duration = tonumber(ARGV[1])
local max = tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
-- @include steps/in_time
local oldest = redis.call('ZRANGE', key, 0, 0)[1]
if oldest and tonumber(oldest) + duration <= now then
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.3f', now - duration))
  oldest = redis.call('ZRANGE', key, 0, 0)[1]
end
local count = oldest and redis.call('ZCARD', key) or 0
local reset_at = math.ceil((oldest and tonumber(oldest) or now) + duration)
if count >= max then return { now, -1, reset_at } end
local at = now
local spelled = string.format('%.3f', at)
while redis.call('ZADD', key, 'NX', spelled, spelled) == 0 do
  -- The clock was set back, and shows a moment again.
  at = at + 0.001
  spelled = string.format('%.3f', at)
end
redis.call('PEXPIRE', key, string.format('%.0f', math.ceil(duration)))
return { now, max - count - 1, reset_at }
