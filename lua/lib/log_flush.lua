--[[ Writes what steps/spend_log has noted before the entries of living leases: log.inserted units at log.inserted_at. ]]
-- @include log_insert
local function log_flush(key, log)
  local units = log.inserted
  log.inserted, log.total = nil, log.total - units
  log_insert(key, log, log.inserted_at, units, nil, log.expire_at)
end
