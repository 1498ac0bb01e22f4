--[[
  Decides a batch under one sliding-counter limit. KEYS, ARGV and result are those of decide_rows.
]]
-- @include sliding_counter
local algorithm, measure = 'sliding-counter', sliding_counter
-- @include decide_rows
