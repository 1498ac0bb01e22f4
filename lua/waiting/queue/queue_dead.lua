--[[
  Lists dead letters, oldest first; fewer than asked for if they are large (queues.texts).

  KEYS[1..10]  the queue: see queues.keys
  ARGV[1]      now, ms; '' for the server's clock
  ARGV[2]      for how long they are kept, ms; -1 for good
  ARGV[3]      how many to pass over
  ARGV[4]      how many to list

  Returns how many it looked at, then for each: id, record, deliveries, reason, moment of its death in ms
]]
local queues = require 'waiting.queue.queues'

local keys = queues.keys()
local now = queues.clock(keys, ARGV[1]).now
local dead_ttl = tonumber(ARGV[2])
local from = tonumber(ARGV[3])
local count = tonumber(ARGV[4])

local oldest = queues.oldest_dead(now, dead_ttl)
local rows = redis.call('ZRANGE', keys.dead, oldest, '+inf', 'BYSCORE', 'LIMIT', from, count, 'WITHSCORES')
if #rows == 0 then return { 0 } end
local ids = {}
for i = 1, #rows, 2 do
  ids[#ids + 1] = rows[i]
end
local graves, looked = queues.texts(keys.graves, ids)
local reply = { looked }
for i = 1, looked do
  local id = ids[i]
  if graves[i] then
    local attempts, reason, text = unpack(cmsgpack.unpack(graves[i]))
    reply[#reply + 1] = { id, text, attempts, reason, tonumber(rows[2 * i]) }
  end
end
return reply
