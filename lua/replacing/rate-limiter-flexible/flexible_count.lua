--[[
  Adds points to plain counters with a lifetime, as rate-limiter-flexible keeps them, one after another. Blocks a key
  when its count comes into a range.

  KEYS         the counters; one may be there several times
  ARGV[1…]     the rule of each key, or one for all. Words: points to add, lifetime of a counter that has none (ms; 0:
               none); and, where keys are blocked, for how long from now on (ms), if the count is at least this, and at
               most this
  ARGV[#ARGV]  until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else for each key the count and the ms it still lives (-1: without
  end), or why it failed and 0.
]]
-- Exact only to the second: it compares texts of digits, which is faster.
local time = redis.call('TIME')
if time[1] > ARGV[#ARGV] then return { time[1] * 1000 + math.floor(time[2] / 1000) } end
local call, pcall = redis.call, redis.pcall
local reply = { 0, 0 }
local shared = #ARGV == 2
local read, points, lifetime, block, low, high
for i = 1, #KEYS do
  local key, rule = KEYS[i], ARGV[shared and 1 or i]
  if rule ~= read then
    read, points, lifetime, block = rule, string.match(rule, '(%S+) (%S+) ?(%S*)')
    if block ~= '' then
      low, high = string.match(rule, '(%S+) (%S+)$')
      low, high = tonumber(low), tonumber(high)
    end
  end
  local count, left = pcall('INCRBY', key, points), 0
  if type(count) == 'table' then
    count = count.err
  elseif block ~= '' and count >= low and count <= high then
    call('PEXPIRE', key, block)
    left = tonumber(block)
  else
    left = call('PTTL', key)
    if left < 0 and lifetime ~= '0' then
      call('PEXPIRE', key, lifetime)
      left = tonumber(lifetime)
    end
  end
  reply[2 * i - 1], reply[2 * i] = count, left
end
return reply
