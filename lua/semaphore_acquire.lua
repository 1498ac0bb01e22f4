--[[
  Takes permits of a semaphore, or a place in its line. Asked again with the same id it answers as things stand: whoever waits asks
  again when it is told that permits are put by for it, when it may have missed that, and when the line has been lost.

  KEYS[1…6]  the semaphore: see semaphore_open
  ARGV[1]    now, ms; '' for the server's clock
  ARGV[2]    permits to set where none are; -1 for none
  ARGV[3]    lifetime in ms where nothing is held; -1: as stored
  ARGV[4]    what the channel of every process begins with
  ARGV[5]    id of the lease
  ARGV[6]    who asks, "process/number"
  ARGV[7]    how many permits
  ARGV[8]    how long the lease is, ms
  ARGV[9]    1 to wait in the line, 0 not to
  ARGV[10]   place in the line that it has been given before; ''

  Returns { 1, fencing token, deadline } if they were granted; { 0, place, ms until the first lease ends, longest silence in ms } if
  they are not free, the place '' if it does not wait; { -1, permits of the semaphore } if it can never have them; { -2 } without a semaphore.
]]
-- @include semaphore_open
-- @include semaphore_number
-- @include semaphore_alive
-- @include semaphore_offer
-- @include semaphore_save
-- @include semaphore_next
local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local id = ARGV[5]
local party = ARGV[6]
local permits = tonumber(ARGV[7])
local lease = tonumber(ARGV[8])
local waits = ARGV[9] == '1'
local place = ARGV[10]

local s = semaphore_read(KEYS, clock, initial, idle)
if not s then return { -2 } end

if s.now < s.calm and place == '' and permits <= s.permits - s.used then
  local token = semaphore_number(s)
  if redis.call('HSETNX', s.facts, id, permits .. ' ' .. party .. ' ' .. token) == 1 then
    local deadline = s.now + lease
    redis.call('ZADD', s.leases, deadline, id)
    -- Keys that were empty had gone, and with them their lifetime. A little more of it serves those who come next.
    if s.used == 0 or s.life < deadline + s.padding then
      local lives = lease + s.padding + math.ceil(lease / 4)
      s.life = s.now + lives
      redis.call('PEXPIRE', s.leases, lives)
      redis.call('PEXPIRE', s.facts, lives)
      if s.idle then redis.call('PEXPIRE', s.config, lives + s.idle) end
    end
    s.used = s.used + permits
    s.calm = math.min(s.calm, deadline)
    semaphore_put(s)
    return { 1, token, deadline }
  end
end
semaphore_sweep(s)


local function granted(number, deadline)
  semaphore_save(s)
  return { 1, number, deadline }
end
local function grant()
  local token = semaphore_number(s)
  redis.call('ZADD', s.leases, s.now + lease, id)
  redis.call('HSET', s.facts, id, permits .. ' ' .. party .. ' ' .. token)
  return granted(token, s.now + lease)
end
local function offered()
  local taken = redis.call('ZREM', s.offers, id) == 1
  s.left = s.left or taken
  return taken
end
local pause = 0
local function enqueue()
  s.crowded = true
  redis.call('ZADD', s.line, place, id)
  pause = semaphore_alive(s, party)
  redis.call('HSET', s.facts, id, permits .. ' ' .. party .. ' ' .. place)
end

-- Where nothing is out and nobody waits, nothing is known of anybody.
local fact = (s.used ~= 0 or s.crowded) and redis.call('HGET', s.facts, id)
if fact then
  local deadline = tonumber(redis.call('ZSCORE', s.leases, id) or nil)
  local _, _, number = semaphore_fact(fact)
  if deadline then return granted(number, deadline) end
  if offered() then return grant() end
  place = number
end
if permits > s.permits then
  redis.call('ZREM', s.line, id)
  redis.call('HDEL', s.facts, id)
  s.left = true
  semaphore_offer(s, channel, id)
  semaphore_save(s)
  return { -1, s.permits }
end
if waits and place ~= '' then
  enqueue()
  semaphore_offer(s, channel, id)
  if offered() then return grant() end
else
  semaphore_offer(s, channel, id)
  if permits <= s.permits - s.used and not (s.crowded and redis.call('EXISTS', s.line) == 1) then
    s.used = s.used + permits
    return grant()
  end
  if waits then
    place = semaphore_number(s)
    enqueue()
  end
end
semaphore_save(s)
return { 0, place, semaphore_next(s), pause }
