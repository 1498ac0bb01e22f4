--[[
  Reads the ends of one key's blocks under some limits, for the dashboard. Changes nothing.

  KEYS  block lists of the limits: see block
  ARGV  the key's member in each of them

  Returns the end of each, ms; 0 if there is no block.
]]
local limits = require 'limiter.limits'

local ends = {}
for i, list in ipairs(KEYS) do
  ends[i] = limits.block_end(list, ARGV[i])
end
return ends
