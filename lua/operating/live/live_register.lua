--[[
  Records the names and defaults of a process, for viewers from outside. Names that no process has registered for 30
  days are removed.

  KEYS[1]   state
  KEYS[2]   names
  KEYS[3]   defaults
  ARGV[1]   epoch, if there is none yet
  ARGV[2..] for each name: name, default

  Returns now
]]
local timely = require 'redis.timely'

local state, names, defaults = KEYS[1], KEYS[2], KEYS[3]
local epoch = ARGV[1]

local now = timely.now_ms('')
if redis.call('HEXISTS', state, 'epoch') == 0 then redis.call('HSET', state, 'epoch', epoch) end
for i = 2, #ARGV, 2 do
  local name, default = ARGV[i], ARGV[i + 1]
  redis.call('ZADD', names, now, name)
  redis.call('HSET', defaults, name, default)
end
local forgotten = redis.call('ZRANGEBYSCORE', names, '-inf', now - 30 * 86400000, 'LIMIT', 0, 100)
if #forgotten > 0 then
  redis.call('ZREM', names, unpack(forgotten))
  redis.call('HDEL', defaults, unpack(forgotten))
end
return now
