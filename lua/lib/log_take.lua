--[[
  Takes at most `cost` of the units that were spent at the moment `at` back out of a log that log_open opened for writing. Units that have
  left the window, or that were lost, are not given back; nor are those with very many entries after them, which are too many to write.
]]
-- @include log_pack
-- @include log_unpack
-- @include log_search
local LOG_TAKE_ENTRIES = 2000

local function log_take(key, log, at, cost, expire_at)
  local length = redis.call('LLEN', key)
  local index, found, total = log_search(key, 1, length, function(time) return time >= at end)
  if found ~= at or length - index > LOG_TAKE_ENTRIES then return end
  local _, before = log_unpack(redis.call('LINDEX', key, index - 1))
  local units = math.min(cost, total - before)
  local entries = {}
  for _, entry in ipairs(redis.call('LRANGE', key, index, '-1')) do
    local time, sum = log_unpack(entry)
    if sum - units > before then entries[#entries + 1] = log_pack(time, sum - units) end
  end
  if index == 1 and #entries == 0 then
    redis.call('DEL', key)
    return
  end
  redis.call('LTRIM', key, '0', index - 1)
  if #entries > 0 then redis.call('RPUSH', key, unpack(entries)) end
  redis.call('PEXPIREAT', key, expire_at)
end
