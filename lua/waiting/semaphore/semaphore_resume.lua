--[[
  Takes a lease over: it gets a new fencing token, and its previous holder is notified.

  KEYS[1..8], ARGV[1..6]  see semaphores.change
  ARGV[7]     id of the lease
  ARGV[8]     the new holder, "process/number"
  ARGV[9]     length of the lease from now on, ms
  ARGV[10]    the newest token that the caller has seen

  Returns { 1, fencing token, deadline, permits }; { 0 } if there is no such lease; { -2 } without a semaphore.
]]
local semaphores = require 'waiting.semaphore.semaphores'

local id = ARGV[7]
local member = ARGV[8]
local ms = tonumber(ARGV[9])
local newest_seen = tonumber(ARGV[10])

return semaphores.change(nil, newest_seen, function(s, channel)
  local taken = '~' .. id
  local scores = redis.call('ZMSCORE', s.leases, taken, id)
  local directly = scores[1]
  if (tonumber(directly or scores[2] or nil) or 0) <= s.now then return { 0 } end
  local permits, former = semaphores.parse_fact(redis.call('HGET', s.facts, id))
  -- From now on it has a fact, so the process that took it directly finds it lost.
  if directly then s.ids_to_drop[#s.ids_to_drop + 1] = taken end
  local token, deadline = semaphores.lease(s, id, ms, permits, member)
  if former then semaphores.notify(channel, former) end
  if directly then semaphores.notify_direct_holders(s.leases, channel) end
  return { 1, token, deadline, permits }, true
end)
