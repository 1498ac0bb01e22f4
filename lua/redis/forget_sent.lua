--[[
  Deletes what is kept of a sender's answered requests, so that they could be repeated. What came after them stays: a
  client that has lost its connection repeats this, too, together with the requests that it has sent later.

  KEYS[1]  the requests of this sender (see timely.run_once), or the last fetch of a process (see queues.fetch_keep)
  ARGV[1]  the number of its next request or fetch

  Returns nothing
]]
local queues = require 'waiting.queue.queues'

local key, next_number = KEYS[1], tonumber(ARGV[1])
local removed = redis.pcall('ZREMRANGEBYSCORE', key, '-inf', '(' .. string.format('%.0f', next_number))
-- An error is a table: the key holds a fetch.
if type(removed) == 'table' and queues.fetch_number(redis.call('GET', key)) < next_number then
  redis.call('DEL', key)
end
