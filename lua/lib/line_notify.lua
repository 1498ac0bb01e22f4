--[[ Sends a wake-up to the process of a member: the number of the member in its process. Returns how many clients of this server have heard it. ]]
local function line_publish(line, member)
  local process, number = string.match(member, '^(.*)/(.*)$')
  local channel = line.channel .. process
  return redis.call('PUBLISH', channel, number)
end

--[[
  Tells the process of a member to ask, unless the member asks within `ms` anyway. The message carries no data, so that a late or lost one does no harm.
  Returns true if a client has heard it.
]]
local function line_notify(line, member, ms)
  local by = line.known[member]
  if not by or by <= line.now + ms then return false end
  line.known[member] = line.now + ms
  redis.call('ZADD', line.asks, string.format('%.0f', line.now + ms), member)
  return line_publish(line, member) > 0
end

--[[
  Tells a process to look again at `moment`, when members that must come now may be evicted: so a dead one costs those behind it a second, and not the time until
  they ask anyway. `told` has the processes that must come, as keys; it is modified. `asker` is not told, because it does not wait.

  The process that has asked last is the likeliest to live. Its channel has no listener if it is dead, or listens on another node of a cluster: then the next
  one is told, too, up to LINE_MOST_WATCHERS.
]]
local LINE_MOST_WATCHERS = 5

local function line_tell_watcher(line, asker, told, moment)
  local count = 0
  local latest = redis.call('ZRANGE', line.asks, '0', '15', 'REV', 'WITHSCORES')
  for i = 1, #latest, 2 do
    local member, by = latest[i], tonumber(latest[i + 1])
    if by <= moment or count == LINE_MOST_WATCHERS then return end
    local process = string.match(member, '^(.*)/')
    if member ~= asker and not told[process] then
      told[process] = true
      count = count + 1
      line.known[member] = by
      if line_notify(line, member, moment - line.now) then return end
    end
  end
end
