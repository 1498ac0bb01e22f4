--[[
  Adds up the permits of all processes of a fleet.

  KEYS[1]  the limit of each process: a HASH of id → "limit expiresAt"
  ARGV[1]  id of the process that asks
  ARGV[2]  its limit; 0: it leaves the fleet
  ARGV[3]  how long it counts without a further call, ms

  Returns the sum of the limits of those processes that have called in time.
]]
-- @include now_ms
local id = ARGV[1]
local own = tonumber(ARGV[2])
local life = tonumber(ARGV[3])
local now = now_ms('')

local total = own
local limits = redis.call('HGETALL', KEYS[1])
for i = 1, #limits, 2 do
  local limit, expires_at = string.match(limits[i + 1], '^(%d+) (%d+)$')
  if limits[i] == id or not limit or tonumber(expires_at) <= now then
    redis.call('HDEL', KEYS[1], limits[i])
  else
    total = total + tonumber(limit)
  end
end
if own > 0 then
  redis.call('HSET', KEYS[1], id, string.format('%d %.0f', own, now + life))
  redis.call('PEXPIRE', KEYS[1], life)
end
return total
