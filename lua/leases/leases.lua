-- Units that processes have bought in advance.
local leases = {}

--[[
  Takes back the unspent units of a lease, once, under each limit that still lists it. `sold`: for each limit a ZSET of
  lease → the moment of its sale in ms, plus half a ms after its return. `receipts`: what the lease was charged under
  each limit. If a lease was sold later than now, the clock was set back: then the ages of all leases are unknown, and
  no units are taken back.
]]
function leases.take_back(lease, units, sold_at, limits, states, notes, sold, receipts, now)
  local arithmetic = require 'limiter.arithmetic'
  for i = 1, #limits do
    local newest = redis.call('ZRANGE', sold[i], '-1', '-1', 'WITHSCORES')[2]
    if newest and math.floor(tonumber(newest)) > now then
      redis.call('DEL', sold[i])
    elseif newest and tonumber(redis.call('ZSCORE', sold[i], lease) or -1) == sold_at then
      redis.call('ZADD', sold[i], string.format('%.1f', sold_at + 0.5), lease)
      local functions = arithmetic.of(limits[i].algorithm)
      local back = functions and functions.returnable(limits[i], units, now - sold_at) or units
      receipts[i].leased = true
      if back > 0 then states[i].settle(back, receipts[i], notes[i]) end
    end
  end
end

--[[
  In how many ms, at most one ttl, units come back from leases of others than `owner` at the latest; 0: none are out.
  `sold`: the ZSET of leases, see leases.take_back. A process gives back what it has not spent within a ttl after the
  end of a lease, or within 50 ms. Looks at the newest leases only.
]]
function leases.out_for(sold, now, ttl, owner)
  local lasts = ttl + math.max(ttl, 50)
  local since = '(' .. string.format('%.0f', now - lasts)
  local until_now = string.format('%.0f', now)
  local newest = redis.call('ZRANGE', sold, until_now, since, 'BYSCORE', 'REV', 'LIMIT', '0', '64', 'WITHSCORES')
  for i = 1, #newest, 2 do
    local sold_at = tonumber(newest[i + 1])
    local is_out = sold_at == math.floor(sold_at)
    if is_out and string.match(newest[i], '^[^.]*') ~= owner then return math.min(ttl, sold_at + lasts - now) end
  end
  return 0
end

return leases
