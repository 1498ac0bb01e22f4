--[[ Reads a fact (see semaphore_read): returns its permits, member and token. Without a fact, returns one permit, and no member. ]]
local function semaphore_parse_fact(fact)
  local permits, member, token = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
  return tonumber(permits) or 1, member, token
end
