--[[ Writes a lease that lasts from now on: a new one, or one that is extended or taken over. Returns its token and its deadline. ]]
-- @include semaphore_number
local function semaphore_lease(s, id, ms, permits, member)
  local token = semaphore_number(s)
  local deadline = s.now + ms
  redis.call('ZADD', s.leases, string.format('%.0f', deadline), id)
  redis.call('HSET', s.facts, id, permits .. ' ' .. member .. ' ' .. token)
  s.latest = math.max(s.latest or 0, deadline)
  return token, deadline
end
