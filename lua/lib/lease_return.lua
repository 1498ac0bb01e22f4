--[[
  Takes back units of a lease, once: under each limit that still knows it (`sold`: for each limit a ZSET of lease → when it was sold, ms; half a ms more
  once it has come back). `receipts`: what the lease was charged under each limit. A lease that was sold later than now says that the clock ran back: then the
  ages of all leases are unknown, and nothing comes back of them.
]]
-- @include functions_of
local function lease_return(lease, units, sold_at, limits, states, notes, sold, receipts, now)
  for i = 1, #limits do
    local newest = redis.call('ZRANGE', sold[i], '-1', '-1', 'WITHSCORES')[2]
    if newest and math.floor(tonumber(newest)) > now then
      redis.call('DEL', sold[i])
    elseif newest and tonumber(redis.call('ZSCORE', sold[i], lease) or -1) == sold_at then
      redis.call('ZADD', sold[i], string.format('%.1f', sold_at + 0.5), lease)
      local returned = functions_of(limits[i].algorithm).returned
      local back = returned and returned(limits[i], units, now - sold_at) or units
      receipts[i].leased = true
      if back > 0 then states[i].settle(back, receipts[i], notes[i]) end
    end
  end
end
