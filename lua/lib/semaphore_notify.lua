--[[ Tells the process of a member ("process/number") to check whether it still has its leases. The message ends with '?'. ]]
local function semaphore_notify(channel, member)
  local process, number = string.match(member, '^(.*)/(.*)$')
  local box = channel .. process
  redis.call('PUBLISH', box, number .. ' ?')
end
