--[[ The end of a member's block, ms; 0 if it is not blocked. ]]
local function blocked_until(list, member)
  return tonumber(redis.call('ZSCORE', list, member) or 0)
end
