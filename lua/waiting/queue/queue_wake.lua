--[[
  Wakes processes for messages that the caller does not take. If none is idle, they wake the next process that becomes
  idle.

  KEYS[1..10]  the queue: see queues.keys
  ARGV         none

  Returns nothing of use
]]
local queues = require 'waiting.queue.queues'

queues.wake(queues.keys())
return {}
