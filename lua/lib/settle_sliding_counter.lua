--[[
  What a settlement does to a sliding counter, as settle_fixed_window. give_back() takes out of the cell of the charge: any units of
  one cell weigh the same at any time.
]]
local settle_sliding_counter = {
  notes_resets = true,
  cut = function(limit, now, at, x, y, note)
    if not at then return end
    local same = note.cut_at and note.cut_at - math.fmod(note.cut_at, limit.window) == at
    note.left = same and math.min(note.left, x) or x
    note.cut_at = now
  end,
  give_back = function(limit, now, units, receipt, at, x, y, note)
    local window, charged_at = limit.window, receipt.charged_at
    local cell, now_cell = charged_at - math.fmod(charged_at, window), now - math.fmod(now, window)
    -- The clock stepped back: what the cell counted may be counted in an earlier one by now.
    if cell > now_cell and at <= now_cell then return end
    if now_cell - cell > window then return end
    if cell ~= at and cell ~= at - window then return end
    local back = math.min(units, cell == at and x or y)
    if note.cut_at and charged_at <= note.cut_at and note.cut_at - math.fmod(note.cut_at, window) == cell then
      back = math.min(back, note.left)
      note.left = note.left - back
    end
    if cell == at then return at, x - back, y end
    return at, x, y - back
  end,
}
