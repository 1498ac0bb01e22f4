--[[
  Deletes a semaphore. Tells its holders and waiters to check their state.

  KEYS[1..6]  the semaphore: see semaphores.open
  KEYS[7], ARGV[1..2]  see timely.run_once
  ARGV[3]     the beginning of the channel names of all processes

  Returns { 1 } if there was one, { 0 } if not.
]]
local timely = require 'redis.timely'
local semaphores = require 'waiting.semaphore.semaphores'
local lines = require 'waiting.line.lines'
local members = require 'waiting.line.members'

local channel = ARGV[3]

return timely.run_once(function()
  local told = {}
  for i = 2, 3 do
    for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], '0', semaphores.ABOVE)) do
      local holder = semaphores.holder_in(name)
      if holder and not told[holder] then members.tell(channel, holder, ' ?') end
      if holder then told[holder] = true end
    end
  end
  local line = lines.open(KEYS[4], KEYS[5], KEYS[6], channel)
  if not line.err then lines.notify_all(line) end
  local existed = redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) > 0 and 1 or 0
  redis.call('UNLINK', unpack(KEYS, 1, 6))
  return { existed }, existed == 1
end)
