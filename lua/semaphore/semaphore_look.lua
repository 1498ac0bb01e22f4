--[[
  How a semaphore stands.

  KEYS[1…6]  the semaphore: see semaphore_open
  ARGV[1]    now, ms; '' for the server's clock
  ARGV[2]    permits to set where none are; -1 for none
  ARGV[3]    lifetime in ms where nothing is held; -1: as stored
  ARGV[4]    what the channel of every process begins with
  ARGV[5]    'permits', 'leases' or 'line'

  Returns { permits, used }, then of leases id, deadline and permits of each; of the line how many in it have been heard of lately. { -2 }
  without a semaphore.
]]
-- @include semaphore_open
-- @include semaphore_offer
-- @include semaphore_save
local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local what = ARGV[5]

local s = semaphore_open(KEYS, clock, initial, idle)
if not s then return { -2 } end
semaphore_offer(s, channel, '')
semaphore_save(s)
local reply = { s.permits, s.used }
if what == 'leases' then
  local leases = redis.call('ZRANGE', s.leases, '0', '-1', 'WITHSCORES')
  for i = 1, #leases, 2 do
    reply[#reply + 1] = leases[i]
    reply[#reply + 1] = tonumber(leases[i + 1])
    reply[#reply + 1] = (semaphore_fact(redis.call('HGET', s.facts, leases[i])))
  end
elseif what == 'line' then
  local count = redis.call('ZCARD', s.offers)
  local seen = {}
  for _, id in ipairs(redis.call('ZRANGE', s.line, '0', '-1')) do
    local _, party = semaphore_fact(redis.call('HGET', s.facts, id))
    if party and seen[party] == nil then
      seen[party] = (tonumber(redis.call('ZSCORE', s.parties, party) or nil) or 0) > s.now
    end
    if party and seen[party] then count = count + 1 end
  end
  reply[#reply + 1] = count
end
return reply
