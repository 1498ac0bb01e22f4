--[[
  Deletes a semaphore. Notifies its holders and waiters to check their state.

  KEYS[1..7]  the semaphore: see semaphore_read
  KEYS[8]     the requests of this sender: see run_once
  ARGV[1]     number of the request; ARGV[2] the lowest number without an answer
  ARGV[3]     the beginning of the channel names of all processes
  ARGV[4]     how long the request is remembered, ms; -1 for as long as usual

  Returns { 1 } if there was one, { 0 } if not.
]]
-- @include run_once
-- @include semaphore_parse_fact
-- @include semaphore_notify
-- @include semaphore_notify_direct_holders
-- @include line_open
-- @include line_notify_all
local number = tonumber(ARGV[1])
local answered = tonumber(ARGV[2])
local channel = ARGV[3]
local keep = tonumber(ARGV[4])

return run_once(KEYS[8], number, answered, function()
  local told = {}
  for _, fact in ipairs(redis.call('HVALS', KEYS[3])) do
    local _, member = semaphore_parse_fact(fact)
    if member and not told[member] then
      told[member] = true
      semaphore_notify(channel, member)
    end
  end
  semaphore_notify_direct_holders(KEYS[2], channel)
  semaphore_notify_direct_holders(KEYS[7], channel)
  local line = line_open(KEYS[4], KEYS[5], KEYS[6], channel)
  if not line.err then line_notify_all(line) end
  local existed = redis.call('EXISTS', KEYS[1])
  redis.call('UNLINK', unpack(KEYS, 1, 7))
  return { existed }, existed == 1
end, keep >= 0 and keep or nil)
