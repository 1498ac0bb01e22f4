--[[
  Tells the process of a member to ask, unless the member asks within `ms` anyway. The message is the number of the member in its process:
  it carries no data, so that a late or lost message does no harm.
]]
local function line_notify(line, member, ms)
  local by = line.known[member]
  if not by or by <= line.now + ms then return end
  line.known[member] = line.now + ms
  redis.call('ZADD', line.asks, string.format('%.0f', line.now + ms), member)
  local process, number = string.match(member, '^(.*)/(.*)$')
  local channel = line.channel .. process
  redis.call('PUBLISH', channel, number)
end
