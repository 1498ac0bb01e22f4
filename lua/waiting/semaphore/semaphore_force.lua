--[[
  Ends a lease, regardless of its holder, which is told.

  KEYS[1..7], ARGV[1..6]  see semaphores.change
  ARGV[7]     name of the lease

  Returns { 1 } if it ended, { 0 } if there is none; { -2 } without a semaphore.
]]
local semaphores = require 'waiting.semaphore.semaphores'

return semaphores.change(nil, nil, function(s, channel)
  if semaphores.end_lease(s, ARGV[7]) == 0 then return { 0 } end
  semaphores.tell_holder(channel, ARGV[7])
  return { 1 }, true
end)
