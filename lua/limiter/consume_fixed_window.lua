--[[
  Decides a batch under one fixed-window limit.

  KEYS, ARGV  as of steps/open_one
  Returns     what consume returns
]]
-- @include rarely_ahead
local algorithm = 'fixed-window'
local shaped = false
-- @include steps/decide_rows with steps/fixed_window
