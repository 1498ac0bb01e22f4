--[[
  The line of the waiters of a rate_party. Foreign values in its keys are deleted. Returns nil if no request waits.
]]
-- @include line_open
local function rate_line(party, channel)
  if redis.call('EXISTS', party.line, party.asks, party.meta) == 0 then return nil end
  local kinds = { [party.line] = 'zset', [party.asks] = 'zset', [party.meta] = 'hash' }
  for key, expected in pairs(kinds) do
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'none' and kind ~= expected then redis.call('DEL', key) end
  end
  local line = line_open(party.line, party.asks, party.meta, channel)
  if line.err or line.units == 0 then return nil end
  return line
end
