--[[
  An ask of the waiting line of a semaphore: takes permits at once if they are free, ends leases, joins and leaves the
  line, collects grants.

  KEYS[1..7]  the semaphore: see semaphores.read
  KEYS[8]     record of the member; KEYS[9] of the member that it replaces, or the same
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2]     permits to set if none are set; -1 for none; below that see semaphores.read
  ARGV[3]     lifetime in ms while nothing is held; -1: as stored
  ARGV[4]     the beginning of the channel names of all processes
  ARGV[5]     the newest token that the caller has seen
  ARGV[6..]   the ask: see asks.handle. The change 'e' ends a lease, named by its id and token, or by '~', its id and
  '',
              and returns 1 or 0. For the other changes see semaphores.capacity

  Returns what asks.handle returns, or '-2' without a semaphore; a list of now alone if it came too late. The facts of a
  grant are its token and its deadline in ms.
]]
-- Exact only to the second: it compares texts of digits, which is faster. A late ask may have been carried out before.
local time = redis.call('TIME')
local is_late = time[1] > ARGV[#ARGV]
local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local newest_seen = tonumber(ARGV[5])
local member = ARGV[6]
local number = tonumber(ARGV[7])
local stamp = ARGV[8]

-- A waiter at the head of the line usually hands its permit to the next one of its process. That case is decided before
-- the functions for the others are created.
local record = redis.call('HMGET', KEYS[8], 'n', 'stamp', 'c', 'fresh')
local stored = redis.call('HMGET', KEYS[1], 'permits', 'idle', 'v')
if
  not is_late
  and clock == ''
  and stored[1]
  and initial >= -1
  and idle < 0
  and not stored[2]
  and ARGV[9] == ''
  and stamp == record[2]
  and number == tonumber(record[1]) + 1
  and record[3] ~= '0'
then
  local hand_over = require 'waiting.semaphore.hand_over'
  local reply = hand_over.try(time, stored, record, member, number, newest_seen)
  if reply then return reply end
end

local semaphores = require 'waiting.semaphore.semaphores'
local asks = require 'waiting.line.asks'
local lines = require 'waiting.line.lines'
local s = semaphores.open(KEYS, clock, initial, idle, newest_seen, stored)
if not s then return '-2' end
if s.err then return redis.error_reply(s.err) end
local line = lines.open(KEYS[4], KEYS[5], KEYS[6], channel)
if line.err then return redis.error_reply(line.err) end
local capacity = semaphores.capacity(s, member)
local reply = asks.handle(line, KEYS[8], KEYS[9], 6, capacity)
if not reply then return { time[1] * 1000 + math.floor(time[2] / 1000) } end
semaphores.save(s, line.units > 0)
return reply
