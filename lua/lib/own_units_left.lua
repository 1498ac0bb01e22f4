--[[ How many of a decision's own units certainly still count, after the refunds in `note` (see refund_note_open). ]]
local function own_units_left(receipt, note)
  if not note.cut_at or receipt.charged_at > note.cut_at then return receipt.cost end
  return math.max(0, receipt.cost - note.refunded)
end
