--[[
  Lists dead letters, oldest first; fewer than asked for if they are large (queues.texts).

  KEYS[1..11]  the queue: see queues.keys
  ARGV[1]      how many to pass over
  ARGV[2]      how many to list

  Returns how many it looked at, then for each: id, record, deliveries, reason, moment of its death in ms
]]
local queues = require 'waiting.queue.queues'

local keys = queues.keys()
local from = tonumber(ARGV[1])
local count = tonumber(ARGV[2])

local rows = redis.call('ZRANGE', keys.dead, from, from + count - 1, 'WITHSCORES')
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
