-- The members of a line: who waits in it, by when each asks again, and who is dead.
local members = {}

--[[
  Each member, "process/number", says with every ask by when it will ask again. Whoever looks at a member that has not
  done so evicts it: what waits for it is then in nobody's way. If it lives (it was stopped, or the server's clock was
  set forward) it joins again with its next ask, for which it is told.

  members.of     the members of one line. `asks`: ZSET member → the moment in ms by which it asks again. `channel`: what
                 the channel names of all processes begin with. Its table `asks_by` holds, for each member that was
                 looked at, that moment, or false if the member is dead
]]
-- A member that asks later than this counts as dead. A dead one delays those behind it by about a second.
members.GRACE_MS = 900

function members.of(asks, channel, now)
  return { asks = asks, channel = channel, now = now, asks_by = {} }
end

--[[ Reads all members with one command: for lines in which each ask looks at all of them. ]]
function members.read(line)
  local stored = redis.call('ZRANGE', line.asks, '0', '-1', 'WITHSCORES')
  for i = 1, #stored, 2 do line.asks_by[stored[i]] = tonumber(stored[i + 1]) end
end

function members.is_dead(line, asks_by)
  return not asks_by or line.now > asks_by + members.GRACE_MS
end

--[[ The moment in ms by which a member asks again; false if it is dead: then it is evicted, and told. ]]
function members.asks_by(line, member)
  local by = line.asks_by[member]
  if by == nil then by = tonumber(redis.call('ZSCORE', line.asks, member) or nil) or false end
  if by and members.is_dead(line, by) then
    redis.call('ZREM', line.asks, member)
    members.tell(line.channel, member, '')
    by = false
  end
  line.asks_by[member] = by
  return by
end

--[[ When a member that must come now may be evicted: somebody has to look again then. ]]
function members.evictable_at(asks_by)
  return asks_by + members.GRACE_MS + 1
end

--[[ The member asks again within `ms`. ]]
function members.will_ask(line, member, ms)
  redis.call('ZADD', line.asks, string.format('%.0f', line.now + ms), member)
end

--[[ Nothing of the member waits any more. ]]
function members.remove(line, member)
  redis.call('ZREM', line.asks, member)
end

--[[
  Sends a message to the process of a member: the number of the member in its process, and `text`. Returns how many
  clients of this server have heard it.
]]
function members.tell(channel, member, text)
  local process, number = string.match(member, '^(.*)/(.*)$')
  local name = channel .. process
  return redis.call('PUBLISH', name, number .. text)
end

--[[
  Tells the process of a member to ask, unless the member asks within `ms` anyway. The message carries nothing that must
  arrive, so that a late or lost one does no harm. Returns true if a client has heard it.
]]
function members.notify(line, member, ms, text)
  local by = line.asks_by[member]
  if not by or by <= line.now + ms then return false end
  line.asks_by[member] = line.now + ms
  members.will_ask(line, member, ms)
  return members.tell(line.channel, member, text or '') > 0
end

return members
