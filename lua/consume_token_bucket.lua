--[[
  Decides a batch under one token-bucket limit. KEYS, ARGV and result are those of decide_rows.
]]
-- @include bucket
local algorithm, measure = 'token-bucket', bucket
-- @include decide_rows
