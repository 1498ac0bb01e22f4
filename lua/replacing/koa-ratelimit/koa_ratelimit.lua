--[[
  Counts requests as koa-ratelimit does, in its sorted sets: a member for each request, whose score is the moment, ms.
  The moment is the server's, and two requests never share a member.

  KEYS         the requests of one id; one may be there several times
  ARGV[1…]     the rule of each key, or one for all. Words: the length of a span (ms), the requests allowed in any span
  ARGV[#ARGV]  until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else for each key the requests left (-1: refused) and when the
  oldest one ends to count, ms, or why it failed and 0; and then now.
]]
-- Exact only to the second: it compares texts of digits, which is faster.
local time = redis.call('TIME')
if time[1] > ARGV[#ARGV] then return { time[1] * 1000 + math.floor(time[2] / 1000) } end
local call, pcall = redis.call, redis.pcall
local now = time[1] * 1000 + time[2] / 1000
local reply = { 0, 0, now }
local shared = #ARGV == 2
-- The offset of the next member in microseconds: all members of a call differ.
local after = 0
local read, duration, max
for i = 1, #KEYS do
  local key, rule = KEYS[i], ARGV[shared and 1 or i]
  if rule ~= read then
    local span, most = string.match(rule, '(%S+) (%S+)')
    read, duration, max = rule, tonumber(span), tonumber(most)
  end
  local members = pcall('ZRANGE', key, 0, 0)
  local left, reset_at = members.err, 0
  if not left then
    local oldest = members[1]
    if oldest and oldest + duration <= now then
      call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.3f', now - duration))
      oldest = call('ZRANGE', key, 0, 0)[1]
    end
    local count = oldest and call('ZCARD', key) or 0
    left = -1
    if count < max then
      left = max - count - 1
      local at
      repeat
        -- Repeats if the clock was set back and shows a moment again.
        at = string.format('%.3f', now + after / 1000)
        after = after + 1
      until call('ZADD', key, 'NX', at, at) == 1
      call('PEXPIRE', key, math.ceil(duration))
    end
    reset_at = math.ceil((oldest or now) + duration)
  end
  reply[2 * i - 1], reply[2 * i] = left, reset_at
end
reply[2 * #KEYS + 1] = now
return reply
