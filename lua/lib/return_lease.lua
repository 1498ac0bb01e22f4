--[[
  Takes back the unspent units of a lease, once, under each limit that still lists it. `sold`: for each limit a ZSET of lease → the moment of its sale in
  ms, plus half a ms after its return. `receipts`: what the lease was charged under each limit. If a lease was sold later than now, the clock was set back:
  then the ages of all leases are unknown, and no units are taken back.
]]
-- @include functions_of
local function return_lease(lease, units, sold_at, limits, states, notes, sold, receipts, now)
  for i = 1, #limits do
    local newest = redis.call('ZRANGE', sold[i], '-1', '-1', 'WITHSCORES')[2]
    if newest and math.floor(tonumber(newest)) > now then
      redis.call('DEL', sold[i])
    elseif newest and tonumber(redis.call('ZSCORE', sold[i], lease) or -1) == sold_at then
      redis.call('ZADD', sold[i], string.format('%.1f', sold_at + 0.5), lease)
      local returnable = functions_of(limits[i].algorithm).returnable
      local back = returnable and returnable(limits[i], units, now - sold_at) or units
      receipts[i].leased = true
      if back > 0 then states[i].settle(back, receipts[i], notes[i]) end
    end
  end
end
