--[[
  Notes that the row of `key`, at `slot` of `written_rows` (nil: at none yet), becomes next_at, next_x and next_y if it was not that: at, x and
  y. Reads what steps/lifetime and steps/outlives read; steps/write_rows writes it at the end.
]]
if next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
  if not slot then
    written = written + 1
    slot = written
    place[key] = slot
    written_keys[slot] = key
    expire_at[slot] = false
  end
  written_rows[slot] = pack('<ddd', next_at, next_x, next_y)
  -- @include steps/outlives
  if not outlives then
    -- @include steps/lifetime
    expire_at[slot] = text
  end
end
