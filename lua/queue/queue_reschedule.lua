--[[
  Gives a message that is delayed another due moment; wakes a sleeper if it is now due before all that wait.

  KEYS[1..9]  the queue: see queue_keys
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2]     id
  ARGV[3]     delay from now, ms

  Returns 1; 0 if no such message is delayed
]]
-- @include now_ms
-- @include queue_keys
-- @include queue_score
-- @include queue_record
-- @include queue_wake_one
local keys = queue_keys()
local clock = ARGV[1]
local id = ARGV[2]
local delay = tonumber(ARGV[3])

local now = now_ms(clock)
local text = redis.call('HGET', keys.messages, id)
if not text then return 0 end
local record = queue_record(text)
if record.ttl > 0 and record.ttl <= now then return 0 end
local member = record.seq .. (redis.call('HGET', keys.tries, id) or '0000000') .. id
local score = redis.call('ZSCORE', keys.delayed, member)
if not score or tonumber(score) % QUEUE_BAND <= now then return 0 end
redis.call('ZADD', keys.delayed, queue_score(record.priority, now + delay), member)
local first = redis.call('ZRANGE', keys.delayed, queue_score(record.priority, 0), '+inf', 'BYSCORE', 'LIMIT', '0', '1')
if first[1] == member then queue_wake_one(keys) end
return 1
