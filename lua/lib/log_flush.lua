--[[ Writes the units that steps/spend_log has collected but not written, log.inserted units at log.inserted_at, before the entries of leases that still last. ]]
-- @include log_insert
local function log_flush(key, log)
  local units = log.inserted
  log.inserted, log.total = nil, log.total - units
  log_insert(key, log, log.inserted_at, units, nil, log.expire_at)
end
