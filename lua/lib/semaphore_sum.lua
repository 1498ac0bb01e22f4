--[[ Returns the sum of the permits of the leases with these ids. ]]
local SEMAPHORE_BATCH = 1000

local function semaphore_sum(s, ids)
  local sum = 0
  for from = 1, #ids, SEMAPHORE_BATCH do
    local facts = redis.call('HMGET', s.facts, unpack(ids, from, math.min(#ids, from + SEMAPHORE_BATCH - 1)))
    for _, fact in ipairs(facts) do sum = sum + (fact and tonumber(string.match(fact, '^%d+')) or 1) end
  end
  return sum
end
