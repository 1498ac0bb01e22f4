--[[ Notes that `cost` was spent now. The list itself is written once a script, by log_save. ]]
-- @include log_rebase
local function log_spend(key, log, now, cost)
  if log.total + cost > 9007199254740991 then log_rebase(key, log) end
  log.total = log.total + cost
  log.newest = now
  -- The oldest entry is also the newest: it grows.
  if not log.oldest or log.oldest == now then log.oldest, log.oldest_total, log.first = now, log.total, log.first or 1 end
end
