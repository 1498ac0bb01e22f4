--[[ Notes that `cost` was spent now. The list itself is written once a script, by log_save. ]]
local function log_spend(log, now, cost)
  log.total = log.total + cost
  log.newest = now
  -- The oldest entry is also the newest: it grows.
  if not log.oldest or log.oldest == now then log.oldest, log.oldest_total, log.first = now, log.total, log.first or 1 end
end
