--[[
  Takes a lease over: it gets a new fencing token, and its previous holder is notified.

  KEYS[1..7]  the semaphore: see semaphore_read
  KEYS[8]     the requests of this sender: see run_once
  ARGV[1]     number of the request; ARGV[2] the lowest number without an answer
  ARGV[3]     now, ms; '' for the server's clock
  ARGV[4]     permits to set if none are set; -1 for none
  ARGV[5]     lifetime in ms while nothing is held; -1: as stored
  ARGV[6]     the beginning of the channel names of all processes
  ARGV[7]     id of the lease
  ARGV[8]     the new holder, "process/number"
  ARGV[9]     length of the lease from now on, ms
  ARGV[10]    the newest token that the caller has seen

  Returns { 1, fencing token, deadline, permits }; { 0 } if there is no such lease; { -2 } without a semaphore.
]]
-- @include run_once
-- @include semaphore_open
-- @include semaphore_parse_fact
-- @include semaphore_lease
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
local member = ARGV[8]
local ms = tonumber(ARGV[9])
local floor = tonumber(ARGV[10])

return run_once(KEYS[8], number, answered, function()
  local s = semaphore_open(KEYS, clock, initial, idle, floor)
  if not s then return { -2 } end
  if s.err then return redis.error_reply(s.err) end
  local reply = { 0 }
  local taken = '~' .. id
  local scores = redis.call('ZMSCORE', s.leases, taken, id)
  local directly = scores[1]
  if (tonumber(directly or scores[2] or nil) or 0) > s.now then
    local permits, former = semaphore_parse_fact(redis.call('HGET', s.facts, id))
    -- From now on it has a fact, so the process that took it directly finds it lost.
    if directly then s.ids_to_drop[#s.ids_to_drop + 1] = taken end
    local token, deadline = semaphore_lease(s, id, ms, permits, member)
    if former then semaphore_notify(channel, former) end
    if directly then semaphore_notify_direct_holders(s.leases, channel) end
    reply = { 1, token, deadline, permits }
  end
  local line = semaphore_serve(s, KEYS, channel, false)
  if line.err then return redis.error_reply(line.err) end
  return reply, reply[1] == 1
end, idle >= 0 and idle or nil)
