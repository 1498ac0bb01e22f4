--[[
  Decides a batch under one token-bucket limit.

  KEYS, ARGV  as of steps/open_one
  Returns     what consume returns
]]
-- @include floor_div
-- @include ceil_div
local shaped = false
-- @include steps/decide_rows with steps/bucket
