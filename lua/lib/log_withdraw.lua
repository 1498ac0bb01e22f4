--[[
  Takes one grant of `cost` units at `at` ms out of the midst of a log that log_open opened for writing. Every later total shrinks,
  so this is for a grant that is young: among the last thousand entries. Returns false where that cannot be.
]]
-- @include log_pack
-- @include log_unpack
-- @include log_search
local function log_withdraw(key, log, at, cost)
  if not log.newest then return false end
  local length = redis.call('LLEN', key)
  local index, found_at, total = log_search(key, math.max(1, length - 1000), length, function(entry_at) return entry_at >= at end)
  if found_at ~= at then return false end
  local _, before = log_unpack(redis.call('LINDEX', key, index - 1))
  if total - before < cost then return false end
  local rest = redis.call('LRANGE', key, index, '-1')
  local kept = {}
  for i, entry in ipairs(rest) do
    local entry_at, entry_total = log_unpack(entry)
    if i > 1 or total - before > cost then kept[#kept + 1] = log_pack(entry_at, entry_total - cost) end
  end
  if #kept == 0 and index == 1 then
    redis.call('DEL', key)
    return true
  end
  redis.call('LTRIM', key, '0', index - 1)
  if #kept > 0 then redis.call('RPUSH', key, unpack(kept)) end
  return true
end
