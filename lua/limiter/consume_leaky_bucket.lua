--[[
  Decides a batch under one leaky-bucket limit.

  KEYS, ARGV  as of steps/open_one
  Returns     what consume returns
]]
-- @include floor_div
-- @include ceil_div
-- @include rarely_ahead
local algorithm = 'leaky-bucket'
local shaped = true
-- @include steps/decide_rows with steps/bucket
