--[[
  Notes after a refund of a bucket how much may still be given back of what was charged before it: cut(). left_of_cut() tells how much
  of that is left now, in units x ms; nil: no bound.
]]
-- @include bucket_level
local function left_of_cut(limit, note, now)
  if not note.cut_at or limit.quota * (now - note.cut_at) >= limit.burst * limit.window then return nil end
  return math.max(0, note.left - limit.quota * math.max(0, now - note.cut_at))
end
local function bucket_cut(limit, now, at, x, y, note)
  if not at then return end
  local level = bucket_level(limit, now, at, x)
  note.left = math.min(level, left_of_cut(limit, note, now) or level)
  note.cut_at = now
end
