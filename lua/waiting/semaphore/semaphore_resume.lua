--[[
  Takes a lease over: it ends, and another begins with the same number of permits. Its former holder is told.

  KEYS[1..7], ARGV[1..6]  see semaphores.change
  ARGV[7]     name of the lease
  ARGV[8]     name of the new one, without the number of its permits
  ARGV[9]     length of the new one, ms
  ARGV[10]    the newest token that the caller has seen

  Returns { 1, fencing token, deadline, name }; { 0 } if there is no such lease; { -2 } without a semaphore.
]]
local semaphores = require 'waiting.semaphore.semaphores'

return semaphores.change(nil, tonumber(ARGV[10]), function(s, channel)
  if semaphores.end_lease(s, ARGV[7]) == 0 then return { 0 } end
  semaphores.tell_holder(channel, ARGV[7])
  local name = semaphores.permits_in(ARGV[7]) .. ARGV[8]
  local token, deadline = semaphores.lease(s, name, tonumber(ARGV[9]))
  return { 1, token, deadline, name }, true
end)
