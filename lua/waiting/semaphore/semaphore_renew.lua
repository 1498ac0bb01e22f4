--[[
  Extends leases, of several semaphores in one call. It walks no line and tells nobody: nothing is free after it that
  was not before.

  KEYS       for each semaphore two: open and held, see semaphores.open
  ARGV[1]    how many semaphores; then for each of them:
             now, ms ('' for the server's clock); lifetime in ms while nothing is held (-1: for ever); how many leases;
             then for each lease: its name, and its length in ms from now (0: only look)

  Returns for each lease its deadline; -1 if it is lost; for the leases of a semaphore that cannot be read, the error of
  Redis.
]]
local semaphores = require 'waiting.semaphore.semaphores'

local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local answers

-- Appends the answer for each of `count` leases, which are named in ARGV from `first` on.
local function extend(leases, last, clock, idle, first, count)
  local now = clock == '' and math.floor(micros / 1000) or tonumber(clock)
  local names, entries, longest = {}, {}, 0
  for i = 1, count do names[i] = ARGV[first + 2 * i - 2] end
  local deadlines = redis.call('ZMSCORE', leases, unpack(names))
  for i, name in ipairs(names) do
    local ms, deadline = tonumber(ARGV[first + 2 * i - 1]), tonumber(deadlines[i] or -1)
    if deadline <= now then
      deadline = -1
    elseif ms > 0 then
      deadline = now + ms
      longest = math.max(longest, ms)
      entries[#entries + 1] = string.format('%.0f', deadline)
      entries[#entries + 1] = name
    end
    answers[#answers + 1] = deadline
  end
  if #entries == 0 then return end
  -- No lease was written later than the newest token: see semaphores.repair_clock.
  redis.call('ZADD', leases, string.format('%.0f', math.max(last, micros)), '!last', unpack(entries))
  semaphores.keep(leases, longest, idle, last, micros)
end

local at = 2
local reply = {}
for i = 1, tonumber(ARGV[1]) do
  local open, held = KEYS[2 * i - 1], KEYS[2 * i]
  local clock, idle, count = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local first = at + 3
  at = first + 2 * count
  -- A semaphore whose keys hold something else must not end the leases of the others.
  answers = {}
  local done, failure = pcall(function()
    local leases, last = open, redis.call('ZSCORE', open, '!last')
    if not last then
      leases, last = held, redis.call('ZSCORE', held, '!last')
    end
    extend(leases, tonumber(last or 0), clock, idle, first, count)
  end)
  -- Redis 7 returns a table.
  if not done then failure = type(failure) == 'table' and failure.err or tostring(failure) end
  for lease = 1, count do reply[#reply + 1] = done and answers[lease] or failure end
end
return reply
