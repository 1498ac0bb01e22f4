--[[ How long until the first lease or offer ends, in ms; -1 where there is none. ]]
local function semaphore_next(s)
  local lease = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
  local offer = tonumber(redis.call('ZRANGE', s.offers, '0', '0', 'WITHSCORES')[2])
  local first = math.min(lease or math.huge, offer or math.huge)
  return first == math.huge and -1 or math.max(0, first - s.now)
end
