--[[ Adds a cost to an opened log now, whether it fits or not, and writes it. `expires_at`: see expiry. ]]
-- @include log_rebase
-- @include log_save
-- @include log_insert
local function log_spend(key, log, now, window, cost, expires_at)
  if log.newest and log.newest > now then
    log_insert(key, log, now, cost, nil, expires_at(log.newest - now + window))
    return
  end
  if log.total + cost > 9007199254740991 then log_rebase(key, log) end
  log.total = math.min(log.total + cost, 9007199254740991)
  log.newest = now
  if not log.oldest or log.oldest == now then log.oldest, log.oldest_total = now, log.total end
  log_save(key, log, window, expires_at)
end
