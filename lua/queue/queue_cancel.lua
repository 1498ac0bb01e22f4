--[[
  Removes a waiting message from a delay queue.

  KEYS[1..11]  the queue: see queue_keys
  KEYS[12]     the requests of this sender: see run_once
  ARGV[1]      number of this request
  ARGV[2]      lowest unanswered number
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      id

  Returns 1; 0 if no such message waits
]]
-- @include run_once
-- @include queue_keys
-- @include queue_clock
-- @include queue_drop
local keys = queue_keys()
local sent = KEYS[12]
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local given = ARGV[3]
local id = ARGV[4]

local reply = run_once(sent, number, floor, function()
  local text = redis.call('HGET', keys.messages, id)
  if not text then return { 0 }, false end
  local clock = queue_clock(keys, given)
  local outlived = queue_outlived(text, clock.now)
  if not queue_drop(keys, id, text) then return { 0 }, false end
  queue_save(keys, clock, true)
  return { outlived and 0 or 1 }, true
end)
return reply[1]
