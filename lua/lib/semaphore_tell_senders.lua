--[[ Tells those who may hold leases that were taken directly to look whether they still have them: `key` holds the leases. ]]
-- @include semaphore_tell
local function semaphore_tell_senders(key, channel)
  local told = {}
  for _, name in ipairs(redis.call('ZREVRANGEBYSCORE', key, '4000000000000000', '100000000000000', 'LIMIT', '0', '200')) do
    local member = string.match(name, '^[@&]([^.]+)')
    if member and not told[member] then
      told[member] = true
      semaphore_tell(channel, member)
    end
  end
end
