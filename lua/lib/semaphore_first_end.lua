--[[ Returns when the first lease ends, in ms; nil without leases. ]]
local function semaphore_first_end(s)
  local first = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
  return first and first < 1e14 and first or nil
end
