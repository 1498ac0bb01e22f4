--[[ Notes a refund; `continues` if earlier ones still matter. ]]
local function note_refund(note, now, units, continues)
  note.refunded = math.min(9007199254740991, continues and note.refunded + units or units)
  note.cut_at = now
end
