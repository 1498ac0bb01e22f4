--[[
  Adds points to plain counters with a lifetime, as rate-limiter-flexible keeps them, one after another. Blocks a key when its count comes into a range.

  KEYS         the counters; one may be there several times
  ARGV[1…]     the rule of each key, or one for all. Words: points to add, lifetime of a counter that has none (ms; 0: none); and, where
               keys are blocked, for how long from now on (ms), if the count is at least this, and at most this
  ARGV[#ARGV]  until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else now, and for each key the count and the ms it still lives (-1: without end), or
  why it failed and 0.
]]
-- @include now_ms
local now = now_ms('')
-- @include steps/in_time
local call, pcall = redis.call, redis.pcall
local reply = { now }
local rules = #ARGV - 1
local read, points, lifetime, lifetime_text, block, block_text, low, high
for i = 1, #KEYS do
  local key = KEYS[i]
  local rule = ARGV[rules == 1 and 1 or i]
  if rule ~= read then
    local rest
    points, lifetime_text, rest = string.match(rule, '^(%S+) (%S+)(.*)$')
    lifetime = tonumber(lifetime_text)
    block = nil
    if rest ~= '' then
      block_text, low, high = string.match(rest, '(%S+) (%S+) (%S+)')
      block, low, high = tonumber(block_text), tonumber(low), tonumber(high)
    end
    read = rule
  end
  local count, left = pcall('INCRBY', key, points), 0
  if type(count) == 'table' then
    count = count.err
  elseif block and count >= low and count <= high then
    call('PEXPIRE', key, block_text)
    left = block
  else
    left = call('PTTL', key)
    if left < 0 and lifetime > 0 then
      call('PEXPIRE', key, lifetime_text)
      left = lifetime
    end
  end
  reply[2 * i] = count
  reply[2 * i + 1] = left
end
return reply
