--[[
  What logs need seldom, in a table: open, rebase and measure are log_open, log_rebase and sliding_window. Functions are made anew at
  each call of a script, and cost as much as what they do: so only when they are wanted.
]]
local rare
local function rarely()
  if not rare then
    -- @include log_open
    -- @include log_rebase
    -- @include sliding_window
    rare = { open = log_open, rebase = log_rebase, measure = sliding_window }
  end
  return rare
end
