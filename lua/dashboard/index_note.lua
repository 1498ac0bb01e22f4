--[[
  Notes that objects exist, for whoever looks from outside: the dashboard finds them here instead of searching the keys.

  KEYS[1]  noted: ZSET id → when it was noted last, ms
  KEYS[2]  facts: HASH id → what it is, as JSON
  KEYS[3]  state: HASH version (rises when facts change)
  ARGV[1]  for how long a note holds, ms
  ARGV[2]  most notes that are kept; the oldest go first
  ARGV[…]  id and facts of each object

  Returns the server's time, ms.
]]
-- @include now_ms
-- @include index_put
local now = now_ms('')
local life = tonumber(ARGV[1])
local most = tonumber(ARGV[2])
index_put(KEYS, 3, now, life, most, false)
return now
