--[[ Tells up to 200 members of a line to ask, after a change that affects more waiters than a walk visits. ]]
local function line_notify_all(line)
  if line.units == 0 then return end
  for _, member in ipairs(redis.call('ZRANGE', line.asks, '0', '199')) do
    local process, number = string.match(member, '^(.*)/(.*)$')
    local channel = line.channel .. process
    redis.call('PUBLISH', channel, number)
  end
end
