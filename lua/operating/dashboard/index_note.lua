--[[
  Records in the index which objects exist, so that the dashboard finds them without scanning keys; but only in a Redis
  whose dashboard somebody has opened.

  KEYS[1]  noted: ZSET id → last recorded, ms
  KEYS[2]  facts: HASH id → its description, as JSON
  KEYS[3]  state: HASH version (rises when facts change)
  KEYS[4]  the secret of dashboards: see dashboard_read
  ARGV[1]  how long a record lasts, ms
  ARGV[2]  most records; the oldest are removed first
  ARGV[…]  id and facts of each object

  Returns 1 if they were recorded, 0 if nobody has a dashboard.
]]
local object_index = require 'operating.dashboard.object_index'
local timely = require 'redis.timely'

local life = tonumber(ARGV[1])
local most = tonumber(ARGV[2])
if redis.call('EXISTS', KEYS[4]) == 0 then return 0 end
object_index.put(KEYS, 3, timely.now_ms(''), life, most, false)
return 1
