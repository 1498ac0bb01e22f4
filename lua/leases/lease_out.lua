--[[
  Tells for how long units of keys may be out on leases.

  KEYS      the leases of each key under each limit (ZSET lease → when it was sold, ms; see leases.take_back)
  ARGV[1]   now, ms; '' for the server's clock
  ARGV[2]   how long a lease lasts at most, ms
  ARGV[3]   the owner that asks: its own leases do not count
  ARGV[4]   the last moment at which the script may act, ms

  Returns now, and nothing else, if it came too late; else now, then for each key what leases.out_for returns.
]]
local timely = require 'redis.timely'
local leases = require 'leases.leases'

local now = timely.now_ms(ARGV[1])
if timely.is_late(now) then return { now } end
local ttl, owner = tonumber(ARGV[2]), ARGV[3]
local out = { now }
for i = 1, #KEYS do out[i + 1] = leases.out_for(KEYS[i], now, ttl, owner) end
return out
