--[[
  What logs need seldom, in a table: open, rebase, measure and ahead are log_open, log_rebase, sliding_window and
  log_ahead. Functions are made anew at
  each call of a script, and cost as much as what they do: so only when they are wanted.
]]
local rare
local function rarely()
  if not rare then
    -- @include log_open
    -- @include log_rebase
    -- @include sliding_window
    -- @include log_ahead
    rare = { open = log_open, rebase = log_rebase, measure = sliding_window, ahead = log_ahead }
  end
  return rare
end
