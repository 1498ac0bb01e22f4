--[[
  Reads the end of one key's block under some limits, for the dashboard. Changes nothing.

  KEYS  block lists of the limits: see block
  ARGV  the key's member in each of them

  Returns the latest end in ms; 0 if there is no block.
]]
-- @include blocked_until
local ends = 0
for i, list in ipairs(KEYS) do
  ends = math.max(ends, blocked_until(list, ARGV[i]))
end
return ends
