--[[
  Decides a batch under one fixed-window limit.

  KEYS, ARGV  as of steps/open_one
  Returns     what consume returns
]]
local shaped = false
-- @include steps/decide_rows with steps/fixed_window
