--[[
  Reads the state of a semaphore. Changes nothing.

  KEYS[1..6]  the semaphore: see semaphores.read
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2]     the permits: see semaphores.given
  ARGV[3]     how many leases to list, those that end first; -1 for all

  Returns { permits, used, the number of waiters, for how long the first of them has waited in ms, how many more
  leases there are }, then name and deadline of each that is listed; { -2 } without a semaphore. If all processes that
  wait seem to be dead, no waiters are counted.
]]
local semaphores = require 'waiting.semaphore.semaphores'
local lines = require 'waiting.line.lines'

-- Of so many ended leases that nobody has removed yet, the permits beyond one count as free.
local MOST_ENDED = 1000

local s = semaphores.read(KEYS, ARGV[1], semaphores.given(ARGV[2]), -1)
if not s then return { -2 } end
if s.err then return redis.error_reply(s.err) end
local line = lines.open(KEYS[4], KEYS[5], KEYS[6], '')
if line.err then return redis.error_reply(line.err) end
local limit, now = tonumber(ARGV[3]), string.format('%.0f', s.now + 1)
local held = redis.call('ZCOUNT', s.leases, now, semaphores.ABOVE)
local freed = 0
if s.stored_extra > 0 then freed = select(2, semaphores.over(s.leases, s.now, MOST_ENDED, s.stored_extra)) end
local rows = limit == 0 and {}
  or redis.call('ZRANGEBYSCORE', s.leases, now, semaphores.ABOVE, 'WITHSCORES', 'LIMIT', '0', limit)
local waiting, longest = lines.waiting(line)
local reply = { s.permits, held + s.stored_extra - freed, waiting, longest, held - #rows / 2 }
local behind, written = semaphores.behind(s)
for i = 1, #rows, 2 do
  local deadline = tonumber(rows[i + 1])
  if behind > 0 and deadline > written then deadline = deadline - behind end
  reply[#reply + 1] = rows[i]
  reply[#reply + 1] = deadline
end
return reply
