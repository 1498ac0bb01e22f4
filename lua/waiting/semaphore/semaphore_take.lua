--[[
  Takes permits for some leases, all or none, if nobody waits. A call that arrives again takes nothing: it finds the
  names of its leases.

  KEYS[1], KEYS[2], KEYS[3]   open, held and config: see semaphores.open
  ARGV[1]   length of the leases, ms
  ARGV[2]   the last moment at which this may be carried out, ms
  ARGV[3]   4e15 and the number of permits that applies whatever is stored; '' if there is none
  ARGV[4]   the permits: see semaphores.given
  ARGV[5]   lifetime in ms while nothing is held; -1: for ever
  ARGV[6..] the names of the leases, of one holder

  Returns { token of the first, deadline in ms }: each lease has the token after that of the one before. For one lease
  usually only the token, if it is the moment in µs from which the deadline counts. -1: nobody waits, and there are not
  enough permits for all; 0: the sender must ask the line; { now } if it came too late.
]]
local open, ms, fixed, name, call = KEYS[1], ARGV[1], ARGV[3], ARGV[6], redis.call
local count = #ARGV - 5
local state = call('ZMSCORE', open, '!room', '!last', unpack(ARGV, 6))
local room, last, time = state[1], state[2], call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = (micros - micros % 1000) / 1000
if now > ARGV[2] + 0 then return { now } end
-- The usual case, decided before functions are made: one lease of one permit, in a table whose lifetime is set. One in
-- 16 calls takes the other way, and removes ended leases.
if
  room
  and count == 1
  and not state[3]
  and (fixed == '' or fixed == room)
  and micros > last + 0
  and micros - last <= micros % 16777216
  and micros % 16 > 0
  and string.sub(name, 1, 2) == '1.'
  and ms + 0 <= 30000
  and call('ZCOUNT', open, now + 1, '100000000000000') + 4e15 < room + 0
then
  call('ZADD', open, now + ms, name, string.format('%.0f', micros), '!last')
  return micros
end

local semaphores = require 'waiting.semaphore.semaphores'
local is_found = false
for i = 1, count do is_found = is_found or state[2 + i] end
if is_found then
  for i = 1, count do
    if tonumber(state[2 + i] or 0) <= now then return 0 end
  end
end
last = tonumber(last or 0)
-- Somebody waits; or the clock was set back, and the line repairs the deadlines.
if not room and call('EXISTS', KEYS[2]) == 1 or last - micros > 1000000 then return 0 end
local token = math.max(last, micros - 1) + 1
local newest = string.format('%.0f', token + count - 1)
if is_found then
  call('ZADD', open, newest, '!last')
  return { token, tonumber(state[3]) }
end
local given, idle = semaphores.given(ARGV[4]), tonumber(ARGV[5])
local extra = room and (call('ZSCORE', open, '!extra') or 4e15) - 4e15 or 0
local permits = room and room - 4e15 + extra
if not permits or permits >= semaphores.MOST or given.is_fixed and permits ~= given.permits then
  local stored, failure
  permits, stored, failure = semaphores.permits(KEYS[3], given, permits)
  if failure then return redis.error_reply(failure) end
  if not permits then return 0 end
  if idle < 0 and given.permits and permits ~= stored then semaphores.write_permits(KEYS[3], permits) end
end
if room then
  extra, room = semaphores.sweep(open, now, semaphores.SWEEP + count, extra, tonumber(room))
end
local before = extra
local wanted = 0
for i = 6, #ARGV do wanted = wanted + semaphores.permits_in(ARGV[i]) end
local used = room and call('ZCOUNT', open, now + 1, semaphores.ABOVE) + extra or 0
local is_granted = used + wanted <= permits
if is_granted then extra = extra + wanted - count end
local entries = {}
local function write(member, score)
  entries[#entries + 1] = score
  entries[#entries + 1] = member
end
local left = 4e15 + math.min(permits, semaphores.MOST) - extra
if left ~= room and (room or is_granted) then write('!room', string.format('%.0f', left)) end
if extra ~= before then write('!extra', string.format('%.0f', 4e15 + extra)) end
if is_granted then
  write('!last', newest)
  for i = 6, #ARGV do write(ARGV[i], now + ms) end
end
if #entries > 0 then call('ZADD', open, unpack(entries)) end
if not is_granted then return wanted <= permits and -1 or 0 end
if not room or ms + 0 > semaphores.SHORT_MS or not semaphores.is_kept(last, micros) then
  semaphores.keep(open, tonumber(ms), idle, last, micros)
end
return { token, now + ms }
