--[[ Tells all processes that may hold leases without a fact to check whether they still have them. `key` is the key of the leases. ]]
-- @include semaphore_notify
local function semaphore_notify_direct_holders(key, channel)
  local told = {}
  for _, name in ipairs(redis.call('ZREVRANGEBYSCORE', key, '4000000000000000', '100000000000000', 'LIMIT', '0', '200')) do
    local member = string.match(name, '^[@&]([^.]+)')
    if member and not told[member] then
      told[member] = true
      semaphore_notify(channel, member)
    end
  end
end
