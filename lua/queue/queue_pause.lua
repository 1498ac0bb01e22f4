--[[
  Pauses or resumes the deliveries of a delay queue. A pause is a member before all others, so that checking it costs nothing.

  KEYS[1..11]  the queue: see queue_keys
  KEYS[12]     the requests of this sender: see run_once
  ARGV[1]      number of this request
  ARGV[2]      lowest unanswered number
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      1 to pause, 0 to resume

  Returns 1 if processes were woken, else 0
]]
-- @include run_once
-- @include queue_keys
-- @include queue_clock
-- @include queue_wake
local keys = queue_keys()
local sent = KEYS[12]
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local given = ARGV[3]
local hold = ARGV[4] == '1'

-- It counts as a change even if nothing changes: repeated later, it must not undo what others have done in between.
return run_once(sent, number, floor, function()
  if hold then
    redis.call('ZADD', keys.delayed, '-1', 'paused')
    queue_save(keys, queue_clock(keys, given))
    return { 0 }, true
  end
  if redis.call('ZREM', keys.delayed, 'paused') == 0 then return { 0 }, true end
  queue_save(keys, queue_clock(keys, given))
  queue_wake(keys)
  return { 1 }, true
end)
