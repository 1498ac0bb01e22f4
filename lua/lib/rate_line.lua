--[[ Opens the line of the waiters of a rate_group, and deletes foreign values in its keys. Returns nil if no request waits. ]]
-- @include line_open
local function rate_line(group, channel)
  if redis.call('EXISTS', group.line, group.asks, group.meta) == 0 then return nil end
  local kinds = { [group.line] = 'zset', [group.asks] = 'zset', [group.meta] = 'hash' }
  for key, expected in pairs(kinds) do
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'none' and kind ~= expected then redis.call('DEL', key) end
  end
  local line = line_open(group.line, group.asks, group.meta, channel)
  if line.err or line.units == 0 then return nil end
  return line
end
