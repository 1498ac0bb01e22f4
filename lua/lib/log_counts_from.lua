--[[
  The moment from which an entry of a log counts for a window: its own; but a moment in the future is a sign of a clock that ran back, and
  becomes now, or of a lease (`ttl`) at most the end of one that is sold now.
]]
local function log_counts_from(at, ttl, now)
  if at <= now then return at end
  return ttl and math.min(at, now + ttl) or now
end
