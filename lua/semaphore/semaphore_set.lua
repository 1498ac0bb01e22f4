--[[
  Sets the number of permits of a semaphore. Notifies the waiters.

  KEYS[1..7]  the semaphore: see semaphore_read
  KEYS[8]     the requests of this sender: see run_once
  ARGV[1]     number of the request; ARGV[2] the lowest number without an answer
  ARGV[3]     now, ms; '' for the server's clock
  ARGV[4]     permits to set if none are set; -1 for none
  ARGV[5]     lifetime in ms while nothing is held; -1: as stored
  ARGV[6]     the beginning of the channel names of all processes
  ARGV[7]     'try': set them if none are set; 'set': set them; 'add': add this number, which may be negative
  ARGV[8]     permits

  Returns { 1, permits } if they were set, { 0, permits } if not, { -2 } without a semaphore to add to.
]]
-- @include run_once
-- @include semaphore_open
-- @include semaphore_serve
local number = tonumber(ARGV[1])
local answered = tonumber(ARGV[2])
local clock = ARGV[3]
local initial = tonumber(ARGV[4])
local idle = tonumber(ARGV[5])
local channel = ARGV[6]
local verb = ARGV[7]
local permits = tonumber(ARGV[8])

return run_once(KEYS[8], number, answered, function()
  local absent = redis.call('HEXISTS', KEYS[1], 'permits') == 0
  local s = semaphore_open(KEYS, clock, verb == 'add' and initial or permits, idle)
  if not s then return { -2 } end
  if s.err then return redis.error_reply(s.err) end
  local before = s.permits
  if verb == 'set' then s.permits = permits end
  if verb == 'add' then s.permits = math.max(0, before + permits) end
  local line = semaphore_serve(s, KEYS, channel, s.permits ~= before)
  if line.err then return redis.error_reply(line.err) end
  local done = verb ~= 'try' or absent
  return { done and 1 or 0, s.permits }, done
end, idle >= 0 and idle or nil)
