--[[
  Ends leases, or waits for them, and offers what is free to those who wait. Of one sender's requests that may come again each has a
  key to itself, which keeps what was answered to the newest: so it acts once, however often the client sends it.

  KEYS[1…6]  the semaphore: see semaphore_open
  KEYS[7]    where what is answered is kept
  ARGV[1]    number of this request
  ARGV[2]    now, ms; '' for the server's clock
  ARGV[3]    permits to set where none are; -1 for none
  ARGV[4]    lifetime in ms where nothing is held; -1: as stored
  ARGV[5]    what the channel of every process begins with
  ARGV[6…]   in turn an id, and what is to end: the lease of this fencing token; 'force': the lease, whoever holds it, who is told;
             'wait': the place in the line, or what is put by for it; 'any': lease or wait, when it is not known what was granted

  Returns for each 1 if it ended a lease, 0 if not; { -2 } without a semaphore.
]]
local number = ARGV[1]
local clock = ARGV[2]
local initial = tonumber(ARGV[3])
local idle = tonumber(ARGV[4])
local channel = ARGV[5]
-- Longer than a client keeps trying.
local keep = idle >= 0 and math.min(idle, 60000) or 60000

-- Nearly always nobody waits and all are leases that are held. That is decided here, before the functions that the rest needs are
-- made: making them costs more than this. What has been carried out before is not held any more.
local call, match = redis.call, string.match
local stored = call('HMGET', KEYS[1], 'used', 'calm', 'idle')
local used, calm, lives = tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[3])
if used and calm and calm > 0 and (idle < 0 or idle == lives) then
  local reply
  if #ARGV == 7 then
    local permits, token = match(call('HGET', KEYS[3], ARGV[6]) or '', '^(%d+) %S+ (%d+)$')
    if token == ARGV[7] and call('ZREM', KEYS[2], ARGV[6]) == 1 then
      call('HDEL', KEYS[3], ARGV[6])
      used = used - permits
      reply = { 1 }
    end
  else
    local ids, seen = {}, {}
    for i = 6, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
    local facts, deadlines = call('HMGET', KEYS[3], unpack(ids)), call('ZMSCORE', KEYS[2], unpack(ids))
    reply = {}
    local sum = 0
    for i = 1, #ids do
      local permits, token = match(facts[i] or '', '^(%d+) %S+ (%d+)$')
      if token ~= ARGV[5 + 2 * i] or not deadlines[i] or seen[ids[i]] then
        reply = nil
        break
      end
      seen[ids[i]] = true
      sum = sum + permits
      reply[i] = 1
    end
    if reply then
      call('ZREM', KEYS[2], unpack(ids))
      call('HDEL', KEYS[3], unpack(ids))
      used = used - sum
    end
  end
  if reply then
    call('HSET', KEYS[1], 'used', used)
    call('SET', KEYS[7], number .. ' ' .. string.rep('1', #reply), 'PX', keep)
    if lives and used == 0 then call('PEXPIRE', KEYS[1], lives) end
    return reply
  end
end

-- @include semaphore_open
-- @include semaphore_offer
-- @include semaphore_save
local sent, answered = match(call('GET', KEYS[7]) or '', '^(%d+) (%d+)$')
if sent == number then
  local reply = {}
  for ended in string.gmatch(answered, '%d') do reply[#reply + 1] = tonumber(ended) end
  return reply
end
local s = semaphore_open(KEYS, clock, initial, idle)
if not s then return { -2 } end

local function finish(id, what)
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
  return ended
end

local reply, changed = {}, false
for i = 6, #ARGV, 2 do
  local ended = finish(ARGV[i], ARGV[i + 1])
  changed = changed or ended == 1
  reply[#reply + 1] = ended
end
semaphore_offer(s, channel, '')
semaphore_save(s)
-- What changed nothing may as well be done again.
if changed then redis.call('SET', KEYS[7], number .. ' ' .. table.concat(reply), 'PX', keep) end
return reply
