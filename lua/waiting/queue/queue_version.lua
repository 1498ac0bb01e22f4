--[[
  Tells whether a delay queue has changed, for processes that are idle. Changes nothing.

  KEYS[1]  clock: see queues.keys
  ARGV     none

  Returns its version: see queues.save
]]
local queues = require 'waiting.queue.queues'

return queues.version(KEYS[1])
