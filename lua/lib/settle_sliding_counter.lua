--[[
  What a settlement does to a sliding counter, as settle_fixed_window. give_back() takes out of the cell of the charge: any units of
  one cell weigh the same at any time.
]]
-- @include own_left
-- @include roll_cells
-- @include note_refund
local settle_sliding_counter = {
  notes_resets = true,
  cut = function(limit, now, units, at, x, y, note)
    if not at then return end
    local cell, inside, before = roll_cells(limit.quota, limit.window, now, at, x, y)
    note_refund(note, now, math.min(units, inside + before), note.cut_at and note.cut_at >= cell - limit.window)
  end,
  give_back = function(limit, now, units, receipt, at, x, y, note)
    local window, charged_at = limit.window, receipt.charged_at
    local cell, now_cell = charged_at - math.fmod(charged_at, window), now - math.fmod(now, window)
    -- The clock stepped back: what the cell counted may be counted in an earlier one by now.
    if cell > now_cell and at <= now_cell then return end
    if now_cell - cell > window then return end
    if cell ~= at and cell ~= at - window then return end
    local most = math.min(units, own_left(receipt, note))
    if cell == at then return at, x - math.min(most, x), y end
    return at, x, y - math.min(most, y)
  end,
}
