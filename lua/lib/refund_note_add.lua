--[[ Adds a refund of `units` to a refund note. `continues`: true if earlier refunds still matter. ]]
local function refund_note_add(note, now, units, continues)
  if units == 0 then return end
  note.refunded = math.min(9007199254740991, continues and note.refunded + units or units)
  note.cut_at = now
end
