-- sliding-window: exact, over a log of spent units and their times: see logs.lua.
local logs = require 'limiter.logs'
local sliding_window = {}

--- What a request of `cost` units meets in `log`, the opened log of `key`: retry (0: allowed; -1: never; else in how
--- many ms), remaining, reset in ms. It spends nothing.
function sliding_window.measure(quota, window, now, cost, key, log)
  local spent = log.total - log.expired_total
  local left = math.max(0, quota - spent)
  local reset = log.newest and log.newest - now + window or 0
  if cost == 0 then return 0, left, reset end
  if spent + cost <= quota then return 0, left - cost, math.max(reset, window) end
  if cost > quota then return -1, left, reset end
  -- The cost fits when the units above the quota have expired: when the entry with the last of them expires.
  local enough = log.total - (quota - cost)
  local at = log.oldest
  if log.oldest_total < enough then
    local length = redis.call('LLEN', key)
    local _, found = logs.search(key, (log.first or 1) + 1, length, function(_, total) return total >= enough end)
    at = found or log.newest
  end
  -- An entry later than the newest possible one means that the clock was set back.
  return math.min(at, log.newest) - now + window, left, reset
end

--- In how many ms `cost` units fit behind `units` others. 0: now; -1: never.
function sliding_window.ahead(quota, window, now, units, cost, key, log)
  local ahead = require 'limiter.ahead'
  local rest, wait = ahead.in_windows(quota, window, units, cost)
  if not rest then return -1 end
  local retry = sliding_window.measure(quota, window, now, rest, key, log)
  return wait + retry
end

return sliding_window
