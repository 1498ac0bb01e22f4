--[[
  The moment from which an entry of a log counts for a window: its own; a moment in the future means that the clock ran back, and
  becomes now, or for a lease (`ttl`) at most the end of a lease sold now.
]]
local function log_counts_from(at, ttl, now)
  if at <= now then return at end
  return ttl and math.min(at, now + ttl) or now
end
