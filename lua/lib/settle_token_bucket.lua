--[[
  What a settlement does to a token bucket, as settle_fixed_window. Units are regained in the order in which they were charged:
  give_back() takes what the bucket has not yet regained by itself. If nobody was charged after the decision, that is all that is left;
  else the level just after it, less what was regained since, less what was given back from before its place (the gaps of the note).
]]
-- @include bucket_level
-- @include bucket_cut
-- @include own_left
local settle_token_bucket = {
  notes_resets = true,
  cut = bucket_cut,
  give_back = function(limit, now, units, receipt, at, x, y, note)
    local quota, window, burst, charged_at = limit.quota, limit.window, limit.burst, receipt.charged_at
    -- The clock stepped back to before the decision.
    if charged_at > now and charged_at ~= at then return end
    local back = math.min(math.min(units, own_left(receipt, note)) * window, bucket_level(limit, now, at, x))
    local gaps = note.gaps
    if charged_at ~= at then
      -- The least level that the decision's verdict allows: it is rounded to whole units and whole ms.
      local left = math.max((receipt.reset - 1) * quota, (burst - receipt.remaining - 1) * window) + 1
      left = left - quota * (now - charged_at)
      for i = 1, #gaps, 3 do
        if gaps[i] <= charged_at and charged_at <= gaps[i + 1] then left = left - gaps[i + 2] end
      end
      if note.cut_at and charged_at <= note.cut_at then left = math.min(left, left_of_cut(limit, note, now) or left) end
      back = math.min(back, left)
    end
    if back <= 0 then return end
    if note.cut_at and charged_at <= note.cut_at then note.left = note.left - back end
    -- A decision of so long ago has nothing left to give back, and what was given back before does not matter to it.
    local fill, kept = burst * window / quota, {}
    for i = 1, #gaps, 3 do
      if now - gaps[i + 1] < fill then
        local size = #kept
        kept[size + 1], kept[size + 2], kept[size + 3] = gaps[i], gaps[i + 1], gaps[i + 2]
      end
    end
    local size = #kept
    kept[size + 1], kept[size + 2], kept[size + 3] = charged_at, math.max(charged_at, at), back
    if #kept > 96 then
      kept[4], kept[5] = math.min(kept[1], kept[4]), math.max(kept[2], kept[5])
      kept[6] = math.min(kept[3] + kept[6], 9007199254740991)
      for _ = 1, 3 do table.remove(kept, 1) end
    end
    note.gaps = kept
    return at, x - back, y
  end,
}
