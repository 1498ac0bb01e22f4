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
function flexible_count()
  -- @inline timely.stop_if_late_in_seconds
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
end

--[[
  Reads a plain counter.

  KEYS[1]  the counter
  ARGV[1]  is not read

  Returns now, the points (nothing if there is no such key) and the ms that it still lives (-1: without end).
]]
function flexible_get()
  return { now_ms(''), redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]) }
end

--[[
  Sets a plain counter, or deletes it.

  KEYS[1]  the counter
  ARGV[1]  its points; '': it is deleted
  ARGV[2]  its lifetime, ms; 0: without end
  ARGV[3]  until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else now and how many keys were deleted.
]]
function flexible_set()
  local key = KEYS[1]
  local points = ARGV[1]
  local lifetime = tonumber(ARGV[2])
  local now = now_ms('')
  if is_late(now) then return { now } end
  if points == '' then return { now, redis.call('DEL', key) } end
  if lifetime > 0 then
    redis.call('SET', key, points, 'PX', ARGV[2])
  else
    redis.call('SET', key, points)
  end
  return { now, 0 }
end
