--[[
  Ends a lease, or a wait for one, and offers what is free to those who wait.

  KEYS[1…6]  the semaphore: see semaphore_open
  KEYS[7]    what this sender has sent: see once
  ARGV[1]    number of this request
  ARGV[2]    the lowest that is not answered
  ARGV[3]    now, ms; '' for the server's clock
  ARGV[4]    permits to set where none are; -1 for none
  ARGV[5]    lifetime in ms where nothing is held; -1: as stored
  ARGV[6]    what the channel of every process begins with
  ARGV[7]    id
  ARGV[8]    what is to end: the lease of this fencing token; 'force': the lease, whoever holds it, who is told; 'wait': the place in
             the line, or what is put by for it; 'any': lease or wait, when it is not known what was granted

  Returns { 1 } if it ended a lease, { 0 } if not, { -2 } without a semaphore.
]]
-- @include once
-- @include semaphore_open
-- @include semaphore_offer
-- @include semaphore_save
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local clock = ARGV[3]
local initial = tonumber(ARGV[4])
local idle = tonumber(ARGV[5])
local channel = ARGV[6]
local id = ARGV[7]
local what = ARGV[8]

local function release()
  local s = semaphore_read(KEYS, clock, initial, idle)
  if not s then return { -2 } end
  if s.now < s.calm then
    local permits, _, token = semaphore_fact(redis.call('HGET', s.facts, id))
    if token == what and redis.call('ZREM', s.leases, id) == 1 then
      redis.call('HDEL', s.facts, id)
      s.used = s.used - permits
      semaphore_put(s)
      if s.idle and s.used == 0 then redis.call('PEXPIRE', s.config, s.idle) end
      return { 1 }, true
    end
  end
  semaphore_sweep(s)
  local fact = redis.call('HGET', s.facts, id)
  local permits, party, stamp = semaphore_fact(fact)
  local ended = 0
  if fact and (what == stamp or what == 'force' or what == 'any') then
    ended = redis.call('ZREM', s.leases, id)
    s.used = s.used - permits * ended
    if ended == 1 and what == 'force' then semaphore_tell(channel, party, '?') end
  end
  if fact and ended == 0 and (what == 'any' or what == 'wait' and not redis.call('ZSCORE', s.leases, id)) then
    s.used = s.used - permits * redis.call('ZREM', s.offers, id)
    redis.call('ZREM', s.line, id)
    redis.call('HDEL', s.facts, id)
    s.left = true
  end
  if ended == 1 then redis.call('HDEL', s.facts, id) end
  semaphore_offer(s, channel, '')
  semaphore_save(s)
  return { ended }, ended == 1
end
return once(KEYS[7], number, floor, release, idle >= 0 and idle or nil)
