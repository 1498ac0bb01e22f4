--[[
  An entry of a log: by `at` ms, `total` units had been spent. Six bytes of time, then as few of the total as it needs. `ttl`: units of a lease of
  so many ms, which count as if they were spent when it ends; its entry may lie so far in the future.
]]
local function log_pack(at, total, ttl)
  if ttl then return struct.pack('>I6I7I4', at, total, ttl) end
  if total < 65536 then return struct.pack('>I6I2', at, total) end
  if total < 16777216 then return struct.pack('>I6I3', at, total) end
  if total < 4294967296 then return struct.pack('>I6I4', at, total) end
  return struct.pack('>I6I7', at, total)
end
