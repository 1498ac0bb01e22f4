--[[
  Changes the row of `key` from at, x, y to next_at, next_x, next_y, if they differ, or if it matters for longer than the key lives, as a bucket does
  under a slower limit. The row has the place `slot` in `values`, and
  steps/write_rows writes it at the end. Reads `expires` of the row, `calm` (whether the fast path may be used from now on: see steps/read_row) and what
  steps/lifetime reads.
]]
if next_at and (next_x ~= x or next_at ~= at or next_y ~= y or math.abs(expires) < server_now + reset) then
  if expire_at[slot] == nil then
    place[key] = slot
    expire_at[slot] = false
  end
  local trusted, lives_until = calm or expires > 0 and clock == '', expires < 0 and -expires or expires
  -- Its lifetime is set only where what is written now matters for longer.
  if clock ~= '' or lives_until < now + reset + 1000 then
    -- What a bucket owes grows with each decision. A key that is asked for again lives a quarter longer, so that this is not due each time.
    local reset = at and clock == '' and reset + math.min(reset / 4, 3600000) or reset
    -- @include steps/lifetime
    lives_until, expire_at[slot] = moment, text
  end
  values[slot] = pack('<dddd', next_at, next_x, next_y, trusted and lives_until or -lives_until)
end
