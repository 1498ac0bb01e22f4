--[[ Whether a line has a waiter whose process seems to be alive. ]]
-- @include line_open
local function line_alive(line)
  if line.units == 0 then return false end
  local last = redis.call('ZRANGE', line.asks, '-1', '-1', 'WITHSCORES')[2]
  return last ~= nil and line.now <= tonumber(last) + LINE_GRACE_MS
end
