--[[
  The newest events of the last day, those that ended last at the end. Changes nothing.

  KEYS[1…2]  events, facts: see events.add
  ARGV[1]    how many

  Returns how many there are; then of each its member, its end in ms, its facts.
]]
local members = redis.call('ZRANGE', KEYS[1], -tonumber(ARGV[1]), -1, 'WITHSCORES')
local found = { redis.call('ZCARD', KEYS[1]) }
for i = 1, #members, 2 do
  found[#found + 1] = members[i]
  found[#found + 1] = members[i + 1]
  found[#found + 1] = redis.call('HGET', KEYS[2], members[i]) or ''
end
return found
