--[[
  Decides a batch under one leaky-bucket limit. KEYS, ARGV and result are those of decide_rows.
]]
-- @include bucket
local algorithm, measure = 'leaky-bucket', bucket
-- @include decide_rows
