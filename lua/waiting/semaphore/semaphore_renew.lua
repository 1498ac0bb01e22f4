--[[
  Extends leases, of several semaphores in one call.

  KEYS       for each semaphore seven: see semaphores.read
  ARGV[1]    the beginning of the channel names of all processes
  ARGV[2]    how many semaphores; then for each of them:
             now, ms ('' for the server's clock); lifetime in ms while nothing is held (-1: as stored); the holder,
             "process/number"; how many leases; then for each lease: id, fencing token, its length in ms from now (0:
             only look)

  Returns for each lease its deadline; -1 if it is lost; for the leases of a semaphore that cannot be read, the error of
  Redis.
]]
local semaphores = require 'waiting.semaphore.semaphores'

local channel = ARGV[1]
local semaphore_count = tonumber(ARGV[2])

local function extend(s, at, holder)
  local id, token, ms = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local deadline = s and tonumber(redis.call('ZSCORE', s.leases, id) or nil)
  if not deadline or deadline <= s.now then return -1 end
  local _, _, stamp = semaphores.parse_fact(redis.call('HGET', s.facts, id))
  local directly = string.sub(id, 1, 1) == '~'
  if not directly and stamp ~= token then return -1 end
  if ms == 0 then return deadline end
  deadline = s.now + ms
  -- No lease was written later than the newest token: see semaphores.repair_clock.
  s.last = math.max(s.last, s.micros)
  s.issued = true
  if directly then semaphores.note_holder(s.leases, holder, s.micros) end
  redis.call('ZADD', s.leases, string.format('%.0f', deadline), id)
  s.latest = math.max(s.latest or 0, deadline)
  return deadline
end

local at = 3
local reply = {}
for i = 1, semaphore_count do
  local keys = { unpack(KEYS, i * 7 - 6, i * 7) }
  local clock, idle, holder, count = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], tonumber(ARGV[at + 3])
  local first = at + 4
  at = first + 3 * count
  -- A semaphore whose keys hold something else must not end the leases of the others.
  local answers = {}
  local done, failure = pcall(function()
    local s = semaphores.open(keys, clock, -1, idle)
    if s and s.err then error(s.err, 0) end
    for lease = first, at - 1, 3 do answers[#answers + 1] = extend(s, lease, holder) end
    local line = s and semaphores.serve(s, keys, channel, false)
    if line and line.err then error(line.err, 0) end
  end)
  -- Redis 7 returns a table.
  if not done then failure = type(failure) == 'table' and failure.err or tostring(failure) end
  for lease = 1, count do reply[#reply + 1] = done and answers[lease] or failure end
end
return reply
