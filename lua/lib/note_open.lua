--[[
  What settlements have to know of a key beside its state: cut_at (the last refund or reset; nil: none), left (how much of what was
  charged before it may still be given back), gaps (token bucket: from, to and size of each).
]]
local function note_open(key)
  local packed = redis.call('GET', key)
  if not packed then return { left = 0, gaps = {} } end
  local cut_at, left, gaps = unpack(cmsgpack.unpack(packed))
  return { cut_at = cut_at or nil, left = left, gaps = gaps }
end
