--[[
  Removes a waiting message from a delay queue.

  KEYS[1..10]  the queue: see queues.keys
  KEYS[11], ARGV[1..2]  see timely.run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      id

  Returns 1; 0 if no such message waits
]]
local queues = require 'waiting.queue.queues'
local timely = require 'redis.timely'

local keys = queues.keys()
local given = ARGV[3]
local id = ARGV[4]

local reply = timely.run_once(function()
  local text = redis.call('HGET', keys.messages, id)
  if not text then return { 0 }, false end
  local clock = queues.clock(keys, given)
  local outlived = queues.outlived(text, clock.now)
  if not queues.drop(keys, id, text) then return { 0 }, false end
  queues.save(keys, clock, true)
  return { outlived and 0 or 1 }, true
end)
return reply[1]
