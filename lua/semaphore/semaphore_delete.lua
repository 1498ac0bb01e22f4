--[[
  Deletes a semaphore. Those who held leases and those who waited are told to look.

  KEYS[1…6]  the semaphore: see semaphore_open
  KEYS[7]    what this sender has sent: see once
  ARGV[1]    number of this request
  ARGV[2]    the lowest that is not answered
  ARGV[3]    what the channel of every process begins with
  ARGV[4]    how long the request is remembered, ms; -1 for as long as usual

  Returns { 1 } if there was one, { 0 } if not.
]]
-- @include once
-- @include semaphore_fact
-- @include semaphore_tell
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local channel = ARGV[3]
local keep = tonumber(ARGV[4])

local function delete()
  local told = {}
  for _, fact in ipairs(redis.call('HVALS', KEYS[3])) do
    local _, party = semaphore_fact(fact)
    if party and not told[party] then
      told[party] = true
      semaphore_tell(channel, party, '*')
    end
  end
  local existed = redis.call('EXISTS', KEYS[1])
  redis.call('DEL', unpack(KEYS, 1, 6))
  return { existed }, existed == 1
end
return once(KEYS[7], number, floor, delete, keep >= 0 and keep or nil)
