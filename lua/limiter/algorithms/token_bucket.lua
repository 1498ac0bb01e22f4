--[[
  token-bucket: refills `quota` per window evenly and holds `burst`. Row: see lua/limiter/lib/bucket.lua.
  lua/limiter/lib/limits.lua (functions_of) describes the pieces.
]]

function traits()
  has_burst = true
end

function measure()
  local shaped = false
  -- @inline bucket.measure
end

function functions()
  -- @inline rows.measure_function
  --[[
    Units are regained in the order in which they were charged; units that the bucket has not yet regained are given
    back. If the decision's charge was the last one, that is all that is left; else the level directly after it, less
    what was regained since, less what was given back from earlier charges (the gaps of the note). The limit is the
    decision's, also if it was changed since: then what was regained is computed at the decision's rate.
  ]]
  local function settle(limit, now, units, receipt, at, x, y, note)
    local quota, window, burst, charged_at = limit.quota, limit.window, limit.burst, receipt.charged_at
    -- The clock stepped back to before the decision.
    if charged_at > now and charged_at ~= at then return end
    local own = math.min(units, own_units_left(receipt, note)) * window
    -- Units returned from a lease have been reduced already.
    if not receipt.leased then own = math.max(0, own - held_by_leases(limit, note, now)) end
    local back = math.min(own, (bucket_level(limit, now, at, x, y)))
    scale_note(limit, note)
    local gaps = note.gaps
    if charged_at ~= at then
      -- The lowest level that fits the decision's verdict, which is rounded to whole units and whole ms.
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
    -- Such an old decision has nothing left to give back, and earlier returns do not affect it.
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
    local found, capacity = bucket_found(limit, x, y)
    return at, found - back, capacity
  end
  functions = bucket(false, measure, settle)
end
