--[[
  Sets how many permits a semaphore has. Where there are fewer than before, all who wait are told to ask again, because some may never
  fit now.

  KEYS[1…6]  the semaphore: see semaphore_open
  KEYS[7]    what this sender has sent: see once
  ARGV[1]    number of this request
  ARGV[2]    the lowest that is not answered
  ARGV[3]    now, ms; '' for the server's clock
  ARGV[4]    permits to set where none are; -1 for none
  ARGV[5]    lifetime in ms where nothing is held; -1: as stored
  ARGV[6]    what the channel of every process begins with
  ARGV[7]    'try': set them where none are; 'set': set them; 'add': so many more, or fewer
  ARGV[8]    permits

  Returns { 1, permits } if they were set, { 0, permits } if not, { -2 } without a semaphore to add to.
]]
-- @include once
-- @include semaphore_open
-- @include semaphore_offer
-- @include semaphore_save
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local clock = ARGV[3]
local initial = tonumber(ARGV[4])
local idle = tonumber(ARGV[5])
local channel = ARGV[6]
local verb = ARGV[7]
local permits = tonumber(ARGV[8])

local function set()
  local absent = redis.call('HEXISTS', KEYS[1], 'permits') == 0
  if verb ~= 'add' then initial = permits end
  local s = semaphore_open(KEYS, clock, initial, idle)
  if not s then return { -2 } end
  local before = s.permits
  if verb == 'set' then s.permits = permits end
  if verb == 'add' then s.permits = math.max(0, before + permits) end
  semaphore_offer(s, channel, '')
  semaphore_save(s)
  if s.permits < before then
    for _, party in ipairs(redis.call('ZRANGE', s.parties, '0', '-1')) do semaphore_tell(channel, party, '*') end
  end
  local done = verb ~= 'try' or absent
  return { done and 1 or 0, s.permits }, done
end
return once(KEYS[7], number, floor, set, idle >= 0 and idle or nil)
