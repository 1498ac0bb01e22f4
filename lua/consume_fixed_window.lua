--[[
  Decides a batch under one fixed-window limit. KEYS, ARGV and result are those of decide_rows.
]]
-- @include fixed_window
local algorithm, measure = 'fixed-window', fixed_window
-- @include decide_rows
