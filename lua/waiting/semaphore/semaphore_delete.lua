--[[
  Deletes a semaphore. Notifies its holders and waiters to check their state.

  KEYS[1..7]  the semaphore: see semaphores.read
  KEYS[8], ARGV[1..2]  see timely.run_once
  ARGV[3]     the beginning of the channel names of all processes
  ARGV[4]     how long the request is remembered, ms; -1 for as long as usual

  Returns { 1 } if there was one, { 0 } if not.
]]
local timely = require 'redis.timely'
local semaphores = require 'waiting.semaphore.semaphores'
local lines = require 'waiting.line.lines'

local channel = ARGV[3]
local keep = tonumber(ARGV[4])

return timely.run_once(function()
  local told = {}
  for _, fact in ipairs(redis.call('HVALS', KEYS[3])) do
    local _, member = semaphores.parse_fact(fact)
    if member and not told[member] then
      told[member] = true
      semaphores.notify(channel, member)
    end
  end
  semaphores.notify_direct_holders(KEYS[2], channel)
  semaphores.notify_direct_holders(KEYS[7], channel)
  local line = lines.open(KEYS[4], KEYS[5], KEYS[6], channel)
  if not line.err then lines.notify_all(line) end
  local existed = redis.call('EXISTS', KEYS[1])
  redis.call('UNLINK', unpack(KEYS, 1, 7))
  return { existed }, existed == 1
end, keep >= 0 and keep or nil)
