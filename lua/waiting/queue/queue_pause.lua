--[[
  Pauses or resumes the deliveries of a delay queue. A pause is a member before all others, so that checking it costs
  nothing.

  KEYS[1..10]  the queue: see queues.keys
  KEYS[11], ARGV[1..2]  see timely.run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      1 to pause, 0 to resume

  Returns nothing of use
]]
local queues = require 'waiting.queue.queues'
local timely = require 'redis.timely'

local keys = queues.keys()
local given = ARGV[3]
local hold = ARGV[4] == '1'

-- It counts as a change even if nothing changes: repeated later, it must not undo what others have done in between.
return timely.run_once(function()
  if hold then
    redis.call('ZADD', keys.delayed, '-1', 'paused')
    queues.save(keys, queues.clock(keys, given))
    return {}, true
  end
  if redis.call('ZREM', keys.delayed, 'paused') == 0 then return {}, true end
  queues.save(keys, queues.clock(keys, given))
  queues.wake(keys)
  return {}, true
end)
