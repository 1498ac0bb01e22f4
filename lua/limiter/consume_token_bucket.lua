--[[
  Decides a batch under one token-bucket limit.

  KEYS, ARGV  as of steps/open_one
  Returns     what consume returns
]]
-- @include floor_div
-- @include ceil_div
-- @include rarely_ahead
local algorithm = 'token-bucket'
local shaped = false
-- @include steps/decide_rows with steps/bucket
