--[[
  Counts the messages of a delay queue.

  KEYS[1..10]  the queue: see queue_keys
  ARGV[1]      now, ms; '' for the server's clock

  Returns ready, delayed, unacked, dead, due moment of the next that is delayed (-1: none), and 1 if more had to be swept out than one
  call may: then ask again
]]
-- @include now_ms
-- @include queue_keys
-- @include queue_score
-- @include queue_purge
-- @include queue_expire
local keys = queue_keys()
local clock = ARGV[1]

local now = now_ms(clock)
local more = queue_purge(keys, now, 200)
local buried = queue_expire(keys, now, 100)
local ready, delayed, next_due = 0, 0, -1
for priority = 0, 9 do
  local from, to = queue_score(priority, now), queue_score(priority, QUEUE_BAND)
  ready = ready + redis.call('ZCOUNT', keys.delayed, queue_score(priority, 0), from)
  local later = redis.call('ZCOUNT', keys.delayed, '(' .. from, to)
  if later > 0 then
    local after = '(' .. from
    local row = redis.call('ZRANGE', keys.delayed, after, to, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
    local due = tonumber(row[2]) % QUEUE_BAND
    if next_due < 0 or due < next_due then next_due = due end
  end
  delayed = delayed + later
end
local lost = redis.call('ZCOUNT', keys.unacked, '-inf', now)
local unacked = redis.call('ZCARD', keys.unacked)
return { ready, delayed, unacked, redis.call('ZCARD', keys.dead), next_due, (more or lost > 0) and 1 or 0, buried }
