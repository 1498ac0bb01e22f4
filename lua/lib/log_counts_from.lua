--[[
  Returns the moment from which an entry of a log counts for a window. That is its own moment `at`. If `at` is in the future, the server's clock was
  set back: then now, or for a lease (`ttl`) at most the end of a lease that is sold now.
]]
local function log_counts_from(at, ttl, now)
  if at <= now then return at end
  return ttl and math.min(at, now + ttl) or now
end
