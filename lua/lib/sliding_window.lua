--[[
  Exact sliding window over a log from log_open. Returns retry (0 allowed, -1 never), remaining, reset, delay. Spends nothing:
  see steps/spend_log.
]]
-- @include log_search
local function sliding_window(limit, now, cost, key, log)
  local spent = log.total - log.gone
  local reset = log.newest and log.newest - now + limit.window or 0
  if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
  if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, math.max(reset, limit.window), 0 end
  if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
  -- The cost fits when the units above the quota have expired: when the entry with the last of them expires.
  local enough = log.total - (limit.quota - cost)
  local at = log.oldest
  if log.oldest_total < enough then
    local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
    at = found or log.newest
  end
  -- An entry later than the newest possible one means that the clock was set back.
  return math.min(at, log.newest) - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
