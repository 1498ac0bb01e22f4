--[[ Tells the process of a member, "process/number", to look whether it still has its leases: the message ends with '?'. ]]
local function semaphore_tell(channel, member)
  local process, number = string.match(member, '^(.*)/(.*)$')
  local box = channel .. process
  redis.call('PUBLISH', box, number .. ' ?')
end
