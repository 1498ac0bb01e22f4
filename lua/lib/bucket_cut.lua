--[[
  Notes a refund of at most `units` from a bucket: how much may still be given back of what was charged before it. left_of_cut() tells how much
  of that is left now, in units x ms; nil: no bound.
]]
-- @include bucket_level
-- @include note_refund
local function left_of_cut(limit, note, now)
  if not note.cut_at or limit.quota * (now - note.cut_at) >= limit.burst * limit.window then return nil end
  return math.max(0, note.left - limit.quota * math.max(0, now - note.cut_at))
end
local function bucket_cut(limit, now, units, at, x, y, note)
  if not at then return end
  local level, left = bucket_level(limit, now, at, x), left_of_cut(limit, note, now)
  if level == 0 then return end
  local rest = math.max(0, level - units * limit.window)
  note.left = math.min(rest, left or rest)
  note_refund(note, now, units, left)
end
