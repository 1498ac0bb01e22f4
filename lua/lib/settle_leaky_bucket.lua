--[[
  What a settlement does to a leaky bucket, as settle_fixed_window. give_back() gives a place back only if it is the last one: one in
  the middle cannot be taken by who comes next, who would leave together with the last.
]]
-- @include bucket_level
-- @include bucket_cut
-- @include own_left
local settle_leaky_bucket = {
  notes_resets = true,
  cut = bucket_cut,
  give_back = function(limit, now, units, receipt, at, x, y, note)
    local level, charged_at = bucket_level(limit, now, at, x), receipt.charged_at
    if level == 0 or charged_at > now or note.cut_at and charged_at < note.cut_at then return end
    -- Each unit raises the level by a whole window, so that the whole units of the verdict tell whether anybody came after.
    local level_then = (limit.burst - receipt.remaining) * limit.window
    if level + limit.quota * (now - charged_at) > level_then then return end
    return at, x - math.min(math.min(units, own_left(receipt, note)) * limit.window, level), y
  end,
}
