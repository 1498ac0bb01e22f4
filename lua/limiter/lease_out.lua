--[[
  Tells for how long units of keys may be out on leases.

  KEYS      the leases of each key under each limit (ZSET lease → when it was sold, ms; see return_lease)
  ARGV[1]   now, ms; '' for the server's clock
  ARGV[2]   how long a lease lasts at most, ms
  ARGV[3]   the owner that asks: its own leases do not count
  ARGV[4]   the last moment at which the script may act, ms

  Returns now, and nothing else, if it came too late; else now, then for each key what leased_for returns.
]]
-- @include now_ms
-- @include leased_for
local now = now_ms(ARGV[1])
-- @include steps/stop_if_late
local ttl, owner = tonumber(ARGV[2]), ARGV[3]
local out = { now }
for i = 1, #KEYS do out[i + 1] = leased_for(KEYS[i], now, ttl, owner) end
return out
