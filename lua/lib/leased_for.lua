--[[
  In how many ms, at most one ttl, units come back from leases of others than `owner` at the latest; 0: none are out. `sold`: the ZSET of leases, see
  return_lease. A process gives back what it has not spent within a ttl after the end of a lease, or within 50 ms. Looks at the newest leases only.
]]
local function leased_for(sold, now, ttl, owner)
  local lasts = ttl + math.max(ttl, 50)
  local since = '(' .. string.format('%.0f', now - lasts)
  local until_now = string.format('%.0f', now)
  local leases = redis.call('ZRANGE', sold, until_now, since, 'BYSCORE', 'REV', 'LIMIT', '0', '64', 'WITHSCORES')
  for i = 1, #leases, 2 do
    local sold_at = tonumber(leases[i + 1])
    local is_out = sold_at == math.floor(sold_at)
    if is_out and string.match(leases[i], '^[^.]*') ~= owner then return math.min(ttl, sold_at + lasts - now) end
  end
  return 0
end
