--[[
  Records in the index which objects exist, so that the dashboard finds them without scanning keys.

  KEYS[1]  noted: ZSET id → last recorded, ms
  KEYS[2]  facts: HASH id → its description, as JSON
  KEYS[3]  state: HASH version (rises when facts change)
  ARGV[1]  how long a record lasts, ms
  ARGV[2]  most records; the oldest are removed first
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
