--[[
  Takes back units of a lease, once: under each limit that still knows it (`sold`: for each limit a ZSET of lease → when it was sold, ms).
  `receipts`: what the lease was charged under each limit. A lease that was sold later than now says that the clock ran back: then the
  ages of all leases are unknown, and nothing comes back of them.
]]
-- @include functions_of
local function lease_return(lease, units, sold_at, limits, states, notes, sold, receipts, now)
  for i = 1, #limits do
    local newest = redis.call('ZRANGE', sold[i], '-1', '-1', 'WITHSCORES')[2]
    if newest and tonumber(newest) > now then
      redis.call('DEL', sold[i])
    elseif newest and redis.call('ZREM', sold[i], lease) == 1 then
      local returned = functions_of(limits[i].algorithm).returned
      local back = returned and returned(limits[i], units, now - sold_at) or units
      receipts[i].leased = true
      if back > 0 then states[i].settle(back, receipts[i], notes[i]) end
    end
  end
end
