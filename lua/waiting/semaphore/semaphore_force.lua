--[[
  Ends a lease, regardless of its holder, which is notified.

  KEYS[1..8], ARGV[1..6]  see semaphores.change
  ARGV[7]     id of the lease

  Returns { 1 } if it ended, { 0 } if there is none; { -2 } without a semaphore.
]]
local semaphores = require 'waiting.semaphore.semaphores'

local id = ARGV[7]

return semaphores.change(nil, nil, function(s, channel)
  local ended, holder = semaphores.end_lease(s, id)
  if ended == 1 then
    if holder then semaphores.notify(channel, holder) else semaphores.notify_direct_holders(s.leases, channel) end
  end
  return { ended }, ended == 1
end)
