--[[ Until when a member of a block list is blocked, ms; 0 if it is not. ]]
local function blocked_until(list, member)
  return tonumber(redis.call('ZSCORE', list, member) or 0)
end
