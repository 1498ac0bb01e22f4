--[[
  Deletes a semaphore. Notifies its holders and waiters to check their state.

  KEYS[1..7]  the semaphore: see semaphore_read
  KEYS[8]     what the sender has sent: see run_once
  ARGV[1]     number of the request; ARGV[2] the lowest that is not answered
  ARGV[3]     what the channel of every process begins with
  ARGV[4]     how long the request is remembered, ms; -1 for as long as usual

  Returns { 1 } if there was one, { 0 } if not.
]]
-- @include run_once
-- @include semaphore_fact
-- @include semaphore_tell
-- @include semaphore_tell_senders
-- @include line_open
-- @include line_notify_all
local number = tonumber(ARGV[1])
local answered = tonumber(ARGV[2])
local channel = ARGV[3]
local keep = tonumber(ARGV[4])

return run_once(KEYS[8], number, answered, function()
  local told = {}
  for _, fact in ipairs(redis.call('HVALS', KEYS[3])) do
    local _, member = semaphore_fact(fact)
    if member and not told[member] then
      told[member] = true
      semaphore_tell(channel, member)
    end
  end
  semaphore_tell_senders(KEYS[2], channel)
  semaphore_tell_senders(KEYS[7], channel)
  local line = line_open(KEYS[4], KEYS[5], KEYS[6], channel)
  if not line.err then line_notify_all(line) end
  local existed = redis.call('EXISTS', KEYS[1])
  redis.call('UNLINK', unpack(KEYS, 1, 7))
  return { existed }, existed == 1
end, keep >= 0 and keep or nil)
