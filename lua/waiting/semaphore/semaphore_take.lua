--[[
  Takes one permit for each of some leases, all or none, of a semaphore that is open for direct takes: see
  semaphores.sweep. A call that arrives again gets the same answer, and takes nothing.

  KEYS[1]   the table of the leases, as it is called while permits are taken directly
  KEYS[2]   the facts of leases
  KEYS[3]   the configuration of the semaphore
  ARGV[1]   the sender: '@' and its unique name. It has one call in flight at a time
  ARGV[2]   the newest token given to this sender; 0 for none
  ARGV[3]   length of the leases, ms; at most a minute
  ARGV[4]   the number of permits that the semaphore must have; -1: any
  ARGV[5..] '~' and the id of each lease

  Returns { token of the first, deadline in ms }: each lease has the token after that of the one before. For one lease
  only the token, if the token is the moment in µs from which the deadline counts. -1: there are not enough permits for
  all; 0: the sender must go through the line.
]]
local semaphores = require 'waiting.semaphore.semaphores'

local direct, sender, stamp, ms, fixed = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call
local count = #ARGV - 4
local state
if fixed == '-1' then
  state = call('ZMSCORE', direct, '!room', '!last')
else
  state = call('ZMSCORE', direct, '!room', '!last', '!extra')
end
local room, last = state[1], state[2]
if not room then return 0 end
-- !extra is -1 - the permits beyond one for each lease.
if fixed ~= '-1' and room - 4e15 - 1 - (state[3] or -1) ~= tonumber(fixed) then return 0 end
if last ~= stamp then
  -- Another sender has taken since, or this call was carried out before.
  local sent = call('ZSCORE', direct, sender)
  if sent and sent ~= stamp then
    local deadlines = call('ZMSCORE', direct, unpack(ARGV, 5))
    for i = 1, count do
      if not deadlines[i] then return 0 end
    end
    return { sent - count + 1, tonumber(deadlines[1]) }
  end
  -- A call cannot be repeated that late.
  if not sent then
    call('ZREMRANGEBYSCORE', direct, '100000000000000', '(' .. string.format('%.0f', last - 80000000))
  end
end
local time = call('TIME')
local seconds, rest = time[1], time[2]
local micros = seconds * 1000000 + rest
local now = micros / 1000
now = now - now % 1
if count > 1 or micros % 16 == 0 or (last - last % 16777216) ~= (micros - micros % 16777216) then
  -- More ended leases than this call adds on average; and the lifetimes, as often as semaphores.sweep says.
  local freed = semaphores.sweep(direct, KEYS[2], now, semaphores.SWEEP + count)
  if freed > 0 then
    room = string.format('%.0f', room + freed)
    call('ZADD', direct, room, '!room')
  end
  if not semaphores.is_kept(last + 0, micros) then
    local left = semaphores.keep(direct, KEYS[2], last + 0, micros, 0)
    local idle = call('HGET', KEYS[3], 'idle')
    if idle then call('PEXPIRE', KEYS[3], left + idle) end
  end
end
-- Leases end at a moment in ms, and all other scores are higher, or below 0. Ended leases are lower.
if call('ZCOUNT', direct, now + 1, '100000000000000') + count + 4e15 > tonumber(room) then return -1 end
local deadline = now + ms
if count == 1 and micros > last + 0 then
  -- The usual case. Joining texts is faster than formatting a number.
  local token = #rest == 6 and seconds .. rest or string.format('%.0f', micros)
  call('ZADD', direct, deadline, ARGV[5], token, '!last', token, sender)
  return micros
end
local token = math.max(last + 1, micros)
local newest = string.format('%.0f', token + count - 1)
local entries = { newest, '!last', newest, sender }
for i = 5, #ARGV do
  entries[#entries + 1] = deadline
  entries[#entries + 1] = ARGV[i]
end
call('ZADD', direct, unpack(entries))
return { token, deadline }
