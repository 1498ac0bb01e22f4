--[[
  Reads the state of a semaphore.

  KEYS[1..6]  the semaphore: see semaphores.open
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2]     permits to set if none are set; -1 for none
  ARGV[3]     lifetime in ms while nothing is held; -1: for ever
  ARGV[4]     the beginning of the channel names of all processes
  ARGV[5]     1 to list the leases

  Returns { permits, used, the number of waiters }, then name and deadline of each lease that was asked for; { -2 }
  without a semaphore. If all processes that wait seem to be dead, no waiters are counted.
]]
local semaphores = require 'waiting.semaphore.semaphores'
local lines = require 'waiting.line.lines'

local s = semaphores.open(KEYS, ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))
if not s then return { -2 } end
if s.err then return redis.error_reply(s.err) end
local is_listed = ARGV[5] == '1'
-- Serving may rename the key.
local leases = is_listed and redis.call('ZRANGEBYSCORE', s.leases, s.now + 1, semaphores.ABOVE, 'WITHSCORES') or {}
local line = semaphores.serve(s, KEYS, ARGV[4], false)
if line.err then return redis.error_reply(line.err) end
local reply = { s.permits, s.used, lines.is_alive(line) and redis.call('ZCARD', KEYS[4]) or 0 }
for i = 1, #leases, 2 do
  reply[#reply + 1] = leases[i]
  reply[#reply + 1] = tonumber(leases[i + 1])
end
return reply
