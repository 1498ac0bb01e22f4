--[[
  Packs an entry of a log: by `at` ms, `total` units had been spent. Six bytes of time, then as few bytes of the total as it needs. `ttl`: the units belong
  to a lease of that many ms. They count as spent when the lease ends, so the entry may lie up to `ttl` in the future.
]]
local function log_pack(at, total, ttl)
  if ttl then return struct.pack('>I6I7I4', at, total, ttl) end
  if total < 65536 then return struct.pack('>I6I2', at, total) end
  if total < 16777216 then return struct.pack('>I6I3', at, total) end
  if total < 4294967296 then return struct.pack('>I6I4', at, total) end
  return struct.pack('>I6I7', at, total)
end
