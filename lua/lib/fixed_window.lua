--[[
  A counter that starts at a key's first request: at = its start (nil: never used), spent = units since.
  Returns retry (0 allowed, -1 never), remaining, reset, delay, then the next at and spent.
]]
-- @include window_start
local function fixed_window(limit, now, cost, at, spent)
  at = window_start(limit.window, now, at)
  if not at then spent = 0 end
  local retry = 0
  if cost > limit.quota then
    retry = -1
  elseif cost > 0 and spent + cost > limit.quota then
    retry = at - now + limit.window
  elseif cost > 0 then
    at = at or now
    spent = spent + cost
  end
  return retry, math.max(0, limit.quota - spent), at and at - now + limit.window or 0, 0, at, spent, 0
end
