--[[
  Takes a lease over: it gets a new fencing token, and whoever held it until now is told to look.

  KEYS[1…6]  the semaphore: see semaphore_open
  ARGV[1]    now, ms; '' for the server's clock
  ARGV[2]    permits to set where none are; -1 for none
  ARGV[3]    lifetime in ms where nothing is held; -1: as stored
  ARGV[4]    what the channel of every process begins with
  ARGV[5]    id of the lease
  ARGV[6]    who takes it, "process/number"
  ARGV[7]    how long the lease is from now on, ms

  Returns { 1, fencing token, deadline, permits }; { 0 } if there is no such lease; { -2 } without a semaphore.
]]
-- @include semaphore_open
-- @include semaphore_number
-- @include semaphore_offer
-- @include semaphore_save
local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local id = ARGV[5]
local party = ARGV[6]
local lease = tonumber(ARGV[7])

local s = semaphore_open(KEYS, clock, initial, idle)
if not s then return { -2 } end
local reply = { 0 }
if redis.call('ZSCORE', s.leases, id) then
  local permits, former = semaphore_fact(redis.call('HGET', s.facts, id))
  local token = semaphore_number(s)
  redis.call('ZADD', s.leases, s.now + lease, id)
  redis.call('HSET', s.facts, id, permits .. ' ' .. party .. ' ' .. token)
  if former then semaphore_tell(channel, former, '?') end
  reply = { 1, token, s.now + lease, permits }
end
semaphore_offer(s, channel, '')
semaphore_save(s)
return reply
