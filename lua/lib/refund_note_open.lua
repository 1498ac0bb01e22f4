--[[
  Reads the refund note of a key: the data that settlements need in addition to its state: cut_at (the last refund or reset; nil: none), refunded
  (units given back of those charged until then), left (buckets: the level just after it), gaps (token bucket: from, to and size of each), capacity (buckets: y of
  the row as which left and gaps are counted).
]]
local function refund_note_open(key)
  local packed = redis.call('GET', key)
  if not packed then return { refunded = 0, left = 0, gaps = {}, capacity = 0 } end
  local cut_at, refunded, left, gaps, leased_until, capacity = unpack(cmsgpack.unpack(packed))
  return {
    cut_at = cut_at or nil,
    refunded = refunded,
    left = left,
    gaps = gaps,
    leased_until = leased_until or nil,
    capacity = capacity,
  }
end
