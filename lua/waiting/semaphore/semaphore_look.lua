--[[
  Reads the state of a semaphore.

  KEYS[1..7]  the semaphore: see semaphores.read
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2]     permits to set if none are set; -1 for none
  ARGV[3]     lifetime in ms while nothing is held; -1: as stored
  ARGV[4]     the beginning of the channel names of all processes
  ARGV[5]     1 to list the leases

  Returns { permits, used, the number of waiters }, then id, deadline and permits of each lease that was asked for; { -2
  } without a semaphore. If all processes that wait seem to be dead, no waiters are counted.
]]
local semaphores = require 'waiting.semaphore.semaphores'
local lines = require 'waiting.line.lines'

local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local lists = ARGV[5] == '1'

local s = semaphores.open(KEYS, clock, initial, idle)
if not s then return { -2 } end
if s.err then return redis.error_reply(s.err) end
-- Serving may rename their key: see semaphores.sweep.
local leases = lists and redis.call('ZRANGEBYSCORE', s.leases, s.now + 1, semaphores.ABOVE, 'WITHSCORES') or {}
local line = semaphores.serve(s, KEYS, channel, false)
if line.err then return redis.error_reply(line.err) end
local reply = { s.permits, s.used, lines.is_alive(line) and redis.call('ZCARD', KEYS[4]) or 0 }
for i = 1, #leases, 2 do
  reply[#reply + 1] = string.match(leases[i], '^~?(.*)$')
  reply[#reply + 1] = tonumber(leases[i + 1])
  reply[#reply + 1] = (semaphores.parse_fact(redis.call('HGET', s.facts, leases[i])))
end
return reply
