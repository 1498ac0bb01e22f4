--[[
  Changes the row of `key` from at, x, y to next_at, next_x, next_y, if they differ. The row has the place `slot` in `written_rows` (nil: no place yet), and
  steps/write_rows writes it at the end. Reads `expires` of the row, `calm` (whether the fast path may be used from now on: see steps/read_row) and what
  steps/lifetime reads.
]]
if next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
  if not slot then
    written = written + 1
    slot = written
    place[key] = slot
    written_keys[slot] = key
    expire_at[slot] = false
  end
  local trusted, lives_until = calm or expires > 0 and clock == '', expires < 0 and -expires or expires
  -- Its lifetime is set only where what is written now matters for longer.
  if clock ~= '' or lives_until < now + reset + 1000 then
    -- @include steps/lifetime
    lives_until, expire_at[slot] = moment, text
  end
  written_rows[slot] = pack('<dddd', next_at, next_x, next_y, trusted and lives_until or -lives_until)
end
