--[[
  What a settlement does to a fixed window. cut() notes a refund of at most `units` from the row.
  give_back() takes at most `units` of a decision's own out of its own window: any units of it are as good, they expire together. In
  doubt it takes nothing. Both get the row: at, x, y; give_back returns the row that follows, or nothing. notes_resets: whether it has to
  know of a reset, because what is charged after one cannot be told from what was charged before.
]]
-- @include own_left
-- @include note_refund
local settle_fixed_window = {
  cut = function(limit, now, units, at, x, y, note)
    if not at or now - at >= limit.window then return end
    note_refund(note, now, math.min(units, x), note.cut_at and note.cut_at >= math.min(at, now))
  end,
  give_back = function(limit, now, units, receipt, at, x, y, note)
    local charged_at = receipt.charged_at
    if charged_at < at or charged_at - at >= limit.window then return end
    -- After a step back of the clock the window may be another one that was moved to here.
    if at <= now and charged_at > now then return end
    if now - at >= limit.window then return end
    return at, x - math.min(units, x, own_left(receipt, note)), y
  end,
}
