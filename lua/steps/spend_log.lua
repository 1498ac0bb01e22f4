--[[
  Spends `cost` now in `log`, that of `key`: at once before the entries of leases that still last; else log_save writes at the end what the whole
  batch has spent. Reads now, window and reset; uses changed, expires_at, algorithm and functions_of.
]]
if log.newest and log.newest > now then
  -- A lease lives, whose units count from its end.
  reset = log.newest - now + window
  functions_of(algorithm).insert(key, log, now, cost, nil, expires_at(reset))
else
  if log.total + cost > 9007199254740991 then functions_of(algorithm).rebase(key, log) end
  log.total = log.total + cost
  log.newest = now
  -- The oldest entry is also the newest: it grows.
  if not log.oldest or log.oldest == now then log.oldest, log.oldest_total = now, log.total end
  if not log.window then
    changed[#changed + 1] = key
    log.window = window
  end
end
