--[[ Permits, member and token of what semaphore_read calls a fact; one permit of nobody's where there is none. ]]
local function semaphore_fact(fact)
  local permits, member, token = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
  return tonumber(permits) or 1, member, token
end
