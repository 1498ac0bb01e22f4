--[[ Notes a refund of so many units that were spent; `continues` if earlier ones still matter. ]]
local function note_refund(note, now, units, continues)
  if units == 0 then return end
  note.refunded = math.min(9007199254740991, continues and note.refunded + units or units)
  note.cut_at = now
end
