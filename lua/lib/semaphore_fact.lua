--[[ Permits, party and number of what semaphore_open calls a fact; a permit of nobody's where there is none. ]]
local function semaphore_fact(fact)
  local permits, party, number = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
  return tonumber(permits) or 1, party, number
end
