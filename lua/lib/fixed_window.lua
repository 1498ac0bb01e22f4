--[[
  A counter that starts at a key's first request: at = its start (nil: never used), spent = units since.
  Returns retry (0 allowed, -1 never), remaining, reset, delay, then the next at and spent.
]]
-- @include window_start
local function fixed_window(limit, now, cost, at, spent)
  local quota, window = limit.quota, limit.window
  at = window_start(window, now, at)
  if not at then spent = 0 end
  local retry = 0
  if cost > quota then
    retry = -1
  elseif cost > 0 and spent + cost > quota then
    retry = at - now + window
  elseif cost > 0 then
    at = at or now
    spent = spent + cost
  end
  return retry, spent < quota and quota - spent or 0, at and at - now + window or 0, 0, at, spent, 0
end
