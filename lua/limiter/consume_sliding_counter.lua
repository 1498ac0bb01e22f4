--[[
  Decides a batch under one sliding-counter limit.

  KEYS, ARGV  as of steps/open_one
  Returns     what consume returns
]]
-- @include roll_cells
-- @include floor_div
-- @include ceil_div
-- @include rarely_ahead
local algorithm = 'sliding-counter'
local shaped = false
-- @include steps/decide_rows with steps/sliding_counter
