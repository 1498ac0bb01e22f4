--[[
  An ask of the waiting line of a semaphore: takes permits at once if they are free, ends leases, joins and leaves the line, collects
  grants.

  KEYS[1..7]  the semaphore: see semaphore_read
  KEYS[8]     record of the member; KEYS[9] of the member that it replaces, or the same
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2]     permits to set if none are set; -1 for none; below that see semaphore_read
  ARGV[3]     lifetime in ms while nothing is held; -1: as stored
  ARGV[4]     the beginning of the channel names of all processes
  ARGV[5]     the newest token that the caller has seen
  ARGV[6..]   the ask: see line_ask. The change 'e' ends a lease, named by its id and token, or by '~', its id and '', and returns 1
              or 0. For the other changes see semaphore_capacity
  ARGV[12]    the last moment at which this may be carried out, ms: its process has given the ask up then

  Returns what line_ask returns, or '-2' without a semaphore; a list of now alone if it came too late. The facts of a grant are its token
  and its deadline in ms.
]]
-- @include steps/stop_if_late_in_seconds
local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local floor = tonumber(ARGV[5])
local member = ARGV[6]
local number = tonumber(ARGV[7])
local stamp = ARGV[8]

-- @include line_answer
-- @include semaphore_answered
-- @include semaphore_note_holder
-- Usually nobody waits, no lease has ended and there are enough permits. That case is decided here, before the functions for the others
-- are created: creating them costs more than this.
local VERSION = '3'
local call, match = redis.call, string.match
local record = call('HMGET', KEYS[8], 'n', 'stamp', 'c', 'fresh')
local stored = call('HMGET', KEYS[1], 'permits', 'used', 'last', 'idle', 'calm', 'life', 'v')
local total, used, calm = tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[5]) or 0

-- The content of this ask; nil if not all of it can be handled here.
local function easy_changes()
  local joins, ends, wanted = {}, {}, 0
  for letter, id, third in string.gmatch(ARGV[11], LINE_CHANGE) do
    if letter == 'j' and third == '' then
      local waiter, cost, ms, lease = match(id, '^(%d+) (%d+) (%d+) (%S+)$')
      wanted = wanted + cost
      if wanted > total - used then return nil end
      joins[#joins + 1] = { waiter, cost, tonumber(ms), lease }
    elseif letter == 'e' and third == '' then
      if not call('ZSCORE', KEYS[2], id) then return nil end
      ends[#ends + 1] = { id, 1 }
    elseif letter == 'e' then
      local permits, token = match(call('HGET', KEYS[3], id) or '', '^(%d+) %S+ (%d+)$')
      if token ~= third then return nil end
      ends[#ends + 1] = { id, permits }
    else
      return nil
    end
  end
  return joins, ends
end

if
  stored[7] == VERSION
  and total
  and used
  and (initial >= -1 or total == -2 - initial)
  and (idle < 0 or idle == tonumber(stored[4]))
  and number == (tonumber(record[1]) or 0) + 1
  and stamp == (record[2] or '')
  and (not record[3] or record[3] == '0')
  and ARGV[9] == ''
then
  local micros = time[1] * 1000000 + time[2]
  local now = clock == '' and math.floor(micros / 1000) or tonumber(clock)
  local joins, ends
  if now < calm then joins, ends = easy_changes() end
  if joins then
    local last = math.max(tonumber(stored[3]) or 0, floor)
    local granted, changes = {}, {}
    local bare, latest, has_facts, is_noted = used == 0, 0, false, false
    for _, ended in ipairs(ends) do
      local gone = call('ZREM', KEYS[2], ended[1])
      if gone == 1 then
        call('HDEL', KEYS[3], ended[1])
        used = used - ended[2]
      end
      changes[#changes + 1] = gone
    end
    bare = bare or used == 0
    for _, join in ipairs(joins) do
      local deadline = now + join[3]
      last = math.max(last + 1, micros)
      local token = string.format('%.0f', last)
      if string.sub(join[4], 1, 1) == '~' then
        if not is_noted then semaphore_note_holder(KEYS[2], member, micros) end
        is_noted = true
      else
        call('HSET', KEYS[3], join[4], join[2] .. ' ' .. member .. ' ' .. token)
        has_facts = true
      end
      call('ZADD', KEYS[2], string.format('%.0f', deadline), join[4])
      used = used + join[2]
      latest = math.max(latest, deadline)
      calm = math.min(calm, deadline)
      granted[#granted + 1] = tonumber(join[1])
      granted[#granted + 1] = token
      granted[#granted + 1] = deadline
    end
    local life = tonumber(stored[6]) or 0
    if #joins == 0 then
      call('HSET', KEYS[1], 'used', used)
      if used == 0 and stored[4] then call('PEXPIRE', KEYS[1], stored[4]) end
    else
      local needed = latest + (clock == '' and 1000 or 5000)
      local short = life < needed
      -- A little longer than needed, so that the next asks need not renew it.
      if short then life = needed + math.ceil((latest - now) / 4) end
      call('HSET', KEYS[1], 'used', used, 'last', string.format('%.0f', last), 'life', life, 'calm', calm)
      -- An empty key is deleted, and its lifetime with it.
      if short or bare or has_facts then
        call('PEXPIRE', KEYS[2], life - now)
        call('PEXPIRE', KEYS[3], life - now)
        if stored[4] then call('PEXPIRE', KEYS[1], life - now + stored[4]) end
      end
    end
    -- While something is held, a copy of an ask that took it must find the record.
    local kept = #joins == 0 and math.min(80000, tonumber(stored[4]) or 80000) or 80000
    -- The lifetime differs each time.
    if stored[4] then record[4] = nil end
    local stamped = math.max(micros, (tonumber(record[2]) or 0) + 1)
    local reply = line_answer({ 1, stamped, now, 0, 5000, 0, 0, total, -1, kept }, granted, {}, changes)
    return semaphore_answered(KEYS[8], record, number, stamped, 0, kept, reply)
  end
end

-- @include semaphore_hand_over
if
  clock == ''
  and stored[7] == VERSION
  and total
  and used
  and calm == 0
  and initial >= -1
  and idle < 0
  and not stored[4]
  and ARGV[9] == ''
  and stamp == record[2]
  and number == tonumber(record[1]) + 1
  and record[3] ~= '0'
then
  local reply = semaphore_hand_over(stored, record, member, number, floor)
  if reply then return reply end
end

-- @include semaphore_open
-- @include semaphore_capacity
-- @include semaphore_save
-- @include line_open
-- @include line_ask
local s = semaphore_open(KEYS, clock, initial, idle, floor, stored)
if not s then return '-2' end
if s.err then return redis.error_reply(s.err) end
local line = line_open(KEYS[4], KEYS[5], KEYS[6], channel)
if line.err then return redis.error_reply(line.err) end
local capacity = semaphore_capacity(s, member)
local reply = line_ask(line, KEYS[8], KEYS[9], 6, capacity, math.min(LINE_LIFE_MS, s.idle or LINE_LIFE_MS))
semaphore_save(s, line.units > 0)
return reply
