--[[
  Says that a party waits still, sees to leases and offers that are over, and tells what it may have missed.

  KEYS[1…6]  the semaphore: see semaphore_open
  ARGV[1]    now, ms; '' for the server's clock
  ARGV[2]    permits to set where none are; -1 for none
  ARGV[3]    lifetime in ms where nothing is held; -1: as stored
  ARGV[4]    what the channel of every process begins with
  ARGV[5]    who waits, "process/number"
  ARGV[6]    id of the one of them that has waited longest. The line loses those in front first.

  Returns whether that one is in the line (0: all must ask again), the ms until the first lease or offer ends (-1 for none), the
  longest silence in ms, then the ids for which permits are put by, at most a hundred.
]]
-- @include semaphore_open
-- @include semaphore_alive
-- @include semaphore_offer
-- @include semaphore_save
-- @include semaphore_next
local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local party = ARGV[5]
local oldest = ARGV[6]

local s = semaphore_open(KEYS, clock, initial, idle)
if not s then return { 0, -1, 0 } end
local known = redis.call('ZSCORE', s.line, oldest) or redis.call('ZSCORE', s.offers, oldest)
local pause = known and semaphore_alive(s, party) or 0
semaphore_offer(s, channel, '')
semaphore_save(s)
local reply = { known and 1 or 0, semaphore_next(s), pause }
for _, id in ipairs(redis.call('ZRANGE', s.offers, '0', '-1')) do
  local _, whose = semaphore_fact(redis.call('HGET', s.facts, id))
  if whose == party and #reply < 103 then reply[#reply + 1] = id end
end
return reply
