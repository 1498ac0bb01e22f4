--[[
  Takes permits of a semaphore, or places in its line, for those of one process who ask at one moment, in their order. Asked again with
  the same id it answers as things stand: whoever waits asks again when it is told that permits are put by for it, when it may have
  missed that, and when the line has been lost.

  KEYS[1…6]  the semaphore: see semaphore_open
  ARGV[1]    now, ms; '' for the server's clock
  ARGV[2]    permits to set where none are; -1 for none
  ARGV[3]    lifetime in ms where nothing is held; -1: as stored
  ARGV[4]    what the channel of every process begins with
  ARGV[5]    who asks, "process/number"
  ARGV[6]    how many permits each
  ARGV[7]    how long each lease is, ms
  ARGV[8]    1 to wait in the line, 0 not to
  ARGV[9]    place in the line that the first has been given before; ''
  ARGV[10…]  id of each lease

  Returns for each { 1, fencing token, deadline } if they were granted; { 0, place, 0 } if they are not free, the place '' if it does not
  wait; { -1, permits of the semaphore, 0 } if it can never have them; all in one list, followed, if some are not free, by the ms until the
  first lease ends (-1: there is none) and the longest silence in ms. { -2 } without a semaphore.
]]
local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local party = ARGV[5]
local permits = tonumber(ARGV[6])
local lease = tonumber(ARGV[7])
local waits = ARGV[8] == '1'
local first_place = ARGV[9]

-- Nearly always nobody waits, nothing is over and there is enough for all. That is decided here, before the functions that the rest
-- needs are made: making them costs more than this.
local call = redis.call
local stored = call('HMGET', KEYS[1], 'permits', 'used', 'last', 'idle', 'calm', 'life')
local total, used, calm = tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[5])
local wanted = (#ARGV - 9) * permits
if
  first_place == ''
  and total
  and used
  and calm
  and wanted <= total - used
  and (initial >= -1 or total == -2 - initial)
  and (idle < 0 or idle == tonumber(stored[4]))
then
  local time = call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local now = clock == '' and math.floor(micros / 1000) or tonumber(clock)
  local last = math.max(tonumber(stored[3] or 0), micros - 1)
  local deadline = now + lease
  local reply
  if now >= calm then
    reply = nil
  elseif #ARGV == 10 then
    local token = string.format('%.0f', last + 1)
    if call('HSETNX', KEYS[3], ARGV[10], ARGV[6] .. ' ' .. party .. ' ' .. token) == 1 then
      call('ZADD', KEYS[2], deadline, ARGV[10])
      reply = { 1, token, deadline }
    end
  else
    local known = false
    for _, fact in ipairs(used > 0 and call('HMGET', KEYS[3], unpack(ARGV, 10)) or {}) do known = known or fact end
    if not known then
      local facts, deadlines, count = {}, {}, 0
      local head = ARGV[6] .. ' ' .. party .. ' '
      local deadline_text = string.format('%.0f', deadline)
      reply = {}
      for i = 10, #ARGV do
        local token = string.format('%.0f', last + i - 9)
        facts[count + 1], facts[count + 2] = ARGV[i], head .. token
        deadlines[count + 1], deadlines[count + 2] = deadline_text, ARGV[i]
        count = count + 2
        reply[#reply + 1] = 1
        reply[#reply + 1] = token
        reply[#reply + 1] = deadline
      end
      call('HSET', KEYS[3], unpack(facts))
      call('ZADD', KEYS[2], unpack(deadlines))
    end
  end
  if reply then
    local padding = clock == '' and 1000 or 5000
    local life = tonumber(stored[6] or 0)
    last = last + #ARGV - 9
    local short = life < deadline + padding
    -- A little more of it serves those who come next.
    if short then life = deadline + padding + math.ceil(lease / 4) end
    if short or deadline < calm then
      call('HSET', KEYS[1], 'used', used + wanted, 'last', last, 'life', life, 'calm', math.min(calm, deadline))
    else
      call('HSET', KEYS[1], 'used', used + wanted, 'last', last)
    end
    -- Keys that were empty had gone, and with them their lifetime.
    if short or used == 0 then
      call('PEXPIRE', KEYS[2], life - now)
      call('PEXPIRE', KEYS[3], life - now)
      if stored[4] then call('PEXPIRE', KEYS[1], life - now + stored[4]) end
    end
    return reply
  end
end

-- @include semaphore_open
-- @include semaphore_number
-- @include semaphore_alive
-- @include semaphore_offer
-- @include semaphore_save
-- @include semaphore_next
local s = semaphore_open(KEYS, clock, initial, idle)
if not s then return { -2 } end

local function lease_of(id)
  local token = semaphore_number(s)
  redis.call('ZADD', s.leases, s.now + lease, id)
  redis.call('HSET', s.facts, id, permits .. ' ' .. party .. ' ' .. token)
  return 1, token, s.now + lease
end
local function offered(id)
  local taken = redis.call('ZREM', s.offers, id) == 1
  s.left = s.left or taken
  return taken
end
local pause
local function enqueue(id, place)
  s.crowded = true
  redis.call('ZADD', s.line, place, id)
  pause = pause or semaphore_alive(s, party)
  redis.call('HSET', s.facts, id, permits .. ' ' .. party .. ' ' .. place)
end

local function ask(id, place)
  -- Where nothing is out and nobody waits, nothing is known of anybody.
  local fact = (s.used ~= 0 or s.crowded) and redis.call('HGET', s.facts, id)
  if fact then
    local deadline = tonumber(redis.call('ZSCORE', s.leases, id) or nil)
    local _, _, number = semaphore_fact(fact)
    if deadline then return 1, number, deadline end
    if offered(id) then return lease_of(id) end
    place = number
  end
  if permits > s.permits then
    redis.call('ZREM', s.line, id)
    redis.call('HDEL', s.facts, id)
    s.left = true
    semaphore_offer(s, channel, id)
    return -1, s.permits, 0
  end
  if waits and place ~= '' then
    enqueue(id, place)
    semaphore_offer(s, channel, id)
    if offered(id) then return lease_of(id) end
  else
    semaphore_offer(s, channel, id)
    if permits <= s.permits - s.used and not (s.crowded and redis.call('EXISTS', s.line) == 1) then
      s.used = s.used + permits
      return lease_of(id)
    end
    if waits then
      place = semaphore_number(s)
      enqueue(id, place)
    end
  end
  return 0, place, 0
end

local reply, refused = {}, false
for i = 10, #ARGV do
  local outcome, what, deadline = ask(ARGV[i], i == 10 and first_place or '')
  refused = refused or outcome == 0
  reply[#reply + 1] = outcome
  reply[#reply + 1] = what
  reply[#reply + 1] = deadline
end
semaphore_save(s)
if refused then
  reply[#reply + 1] = semaphore_next(s)
  reply[#reply + 1] = pause or 0
end
return reply
