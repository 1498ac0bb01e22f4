--[[ How many of a decision's own units certainly still count, after the refunds of a note. ]]
local function own_left(receipt, note)
  if not note.cut_at or receipt.charged_at > note.cut_at then return receipt.cost end
  return math.max(0, receipt.cost - note.refunded)
end
