-- Changes of a token bucket: see arithmetic.lua.
local buckets = require 'limiter.buckets'
local notes = require 'limiter.notes'
local token_bucket = require 'limiter.algorithms.token_bucket'
local token_changes = {}

token_changes.notes_resets = true
token_changes.notes_leases = true
token_changes.is_bucket = true
token_changes.charge = buckets.charge
token_changes.refund = buckets.refund
token_changes.raised = buckets.raised
token_changes.room = buckets.room
token_changes.returnable = buckets.returnable

function token_changes.measure(limit, now, cost, at, level, capacity)
  return token_bucket.measure(limit.quota, limit.window, limit.third, now, cost, at, level, capacity)
end

--[[
  Units are regained in the order in which they were charged; units that the bucket has not yet regained are given back.
  If the decision's charge was the last one, that is all that is left; else the level directly after it, less what was
  regained since, less what was given back from earlier charges (the gaps of the note). The limit is the decision's,
  also if it was changed since: then what was regained is computed at the decision's rate.
]]
function token_changes.settle(limit, now, units, receipt, at, level, capacity, note)
  local quota, window, burst, charged_at = limit.quota, limit.window, limit.third, receipt.charged_at
  -- The clock stepped back to before the decision.
  if charged_at > now and charged_at ~= at then return end
  local own = math.min(units, notes.own_units_left(receipt, note)) * window
  -- Units returned from a lease have been reduced already.
  if not receipt.leased then own = math.max(0, own - buckets.held_by_leases(limit, note, now)) end
  local back = math.min(own, (buckets.level(limit, now, at, level, capacity)))
  buckets.scale_note(limit, note)
  local gaps = note.gaps
  if charged_at ~= at then
    -- The lowest level that fits the decision's verdict, which is rounded to whole units and whole ms.
    local left = math.max((receipt.reset - 1) * quota, (burst - receipt.remaining - 1) * window) + 1
    left = left - quota * (now - charged_at)
    for i = 1, #gaps, 3 do
      if gaps[i] <= charged_at and charged_at <= gaps[i + 1] then left = left - gaps[i + 2] end
    end
    if note.cut_at and charged_at <= note.cut_at then
      left = math.min(left, buckets.left_of_cut(limit, note, now) or left)
    end
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
  local found, counted = buckets.found(limit, level, capacity)
  return at, found - back, counted
end

return token_changes
