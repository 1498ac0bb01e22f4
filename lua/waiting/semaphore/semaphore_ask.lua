--[[
  An ask of the waiting line of a semaphore: takes permits at once if they are free, ends leases, joins and leaves the
  line, collects grants.

  KEYS[1..6]  the semaphore: see semaphores.open
  KEYS[7]     record of the member; KEYS[8] of the member that it replaces, or the same
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2]     the permits: see semaphores.given
  ARGV[3]     lifetime in ms while nothing is held; -1: for ever
  ARGV[4]     the beginning of the channel names of all processes
  ARGV[5]     the newest token that the caller has seen
  ARGV[6..]   the ask: see asks.handle. For the change 'e' see semaphores.capacity

  Returns what asks.handle returns, or '-2' without a semaphore; a list of now alone if it came too late. The facts of a
  grant are its token and its deadline in ms.
]]
local semaphores = require 'waiting.semaphore.semaphores'
local asks = require 'waiting.line.asks'
local lines = require 'waiting.line.lines'

local s = semaphores.open(KEYS, ARGV[1], semaphores.given(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5]))
if not s then return '-2' end
if s.err then return redis.error_reply(s.err) end
local line = lines.open(KEYS[4], KEYS[5], KEYS[6], ARGV[4])
if line.err then return redis.error_reply(line.err) end
local reply = asks.handle(line, KEYS[7], KEYS[8], 6, semaphores.capacity(s))
semaphores.save(s, line.units > 0)
return reply or { line.now }
