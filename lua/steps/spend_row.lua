--[[
  Notes that the row of `key`, at `slot` of `writes` (nil: at none yet), becomes next_at, next_x and next_y if it was not that: at, x and
  y. Reads what steps/lifetime reads; steps/write_rows writes it at the end.
]]
if next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
  if not slot then
    written = written + 1
    slot = written
    place[key] = slot
    writes[2 * slot - 1] = key
  end
  writes[2 * slot] = pack('<ddd', next_at, next_x, next_y)
  -- @include steps/lifetime
  expire_at[slot] = text
end
