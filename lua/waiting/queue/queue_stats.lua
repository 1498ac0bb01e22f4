--[[
  Counts the messages of a delay queue.

  KEYS[1..11]  the queue: see queues.keys
  ARGV[1]      now, ms; '' for the server's clock

  Returns ready, delayed, unacked, dead, due moment of the next that is delayed, by the server's clock (-1: none), 1 if
  more had to be swept out than one call may (then ask again), how many became dead letters, for how long the oldest
  ready message has been due, ms, and in how many ms the next is due (-1: none): a process must not measure that by its
  own clock
]]
local queues = require 'waiting.queue.queues'

local keys = queues.keys()
local clock = queues.clock(keys, ARGV[1])
local now = clock.now
local more = queues.purge(keys, now, 200)
local buried = queues.expire(keys, now, 100)
local ready, delayed, next_due, oldest = 0, 0, -1, now
for priority = 0, 9 do
  local from, to = queues.score(priority, now), queues.score(priority, queues.BAND)
  local due = redis.call('ZCOUNT', keys.delayed, queues.score(priority, 0), from)
  ready = ready + due
  if due > 0 then
    local start = queues.score(priority, 0)
    local row = redis.call('ZRANGE', keys.delayed, start, from, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
    oldest = math.min(oldest, tonumber(row[2]) % queues.BAND)
  end
  local later = redis.call('ZCOUNT', keys.delayed, '(' .. from, to)
  if later > 0 then
    local after = '(' .. from
    local row = redis.call('ZRANGE', keys.delayed, after, to, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
    local at = tonumber(row[2]) % queues.BAND - clock.ahead
    if next_due < 0 or at < next_due then next_due = at end
  end
  delayed = delayed + later
end
local next_in = next_due < 0 and -1 or next_due + clock.ahead - now
local lost = redis.call('ZCOUNT', keys.unacked, '-inf', now)
local unacked = redis.call('ZCARD', keys.unacked)
local dead = redis.call('ZCARD', keys.dead)
queues.save(keys, clock, true)
return { ready, delayed, unacked, dead, next_due, (more or lost > 0) and 1 or 0, buried, now - oldest, next_in }
