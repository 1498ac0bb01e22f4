--[[
  Ends a lease, regardless of its holder, which is notified.

  KEYS[1..7]  the semaphore: see semaphore_read
  KEYS[8]     the requests of this sender: see run_once
  ARGV[1]     number of the request; ARGV[2] the lowest number without an answer
  ARGV[3]     now, ms; '' for the server's clock
  ARGV[4]     permits to set if none are set; -1 for none
  ARGV[5]     lifetime in ms while nothing is held; -1: as stored
  ARGV[6]     the beginning of the channel names of all processes
  ARGV[7]     id of the lease

  Returns { 1 } if it ended, { 0 } if there is none; { -2 } without a semaphore.
]]
-- @include run_once
-- @include semaphore_open
-- @include semaphore_end
-- @include semaphore_notify
-- @include semaphore_notify_direct_holders
-- @include semaphore_serve
local number = tonumber(ARGV[1])
local answered = tonumber(ARGV[2])
local clock = ARGV[3]
local initial = tonumber(ARGV[4])
local idle = tonumber(ARGV[5])
local channel = ARGV[6]
local id = ARGV[7]

return run_once(KEYS[8], number, answered, function()
  local s = semaphore_open(KEYS, clock, initial, idle)
  if not s then return { -2 } end
  if s.err then return redis.error_reply(s.err) end
  local ended, holder = semaphore_end(s, id)
  if ended == 1 then
    if holder then semaphore_notify(channel, holder) else semaphore_notify_direct_holders(s.leases, channel) end
  end
  local line = semaphore_serve(s, KEYS, channel, false)
  if line.err then return redis.error_reply(line.err) end
  return { ended }, ended == 1
end, idle >= 0 and idle or nil)
