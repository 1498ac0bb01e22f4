--[[
  Changes the row of `key` from at, x, y to next_at, next_x, next_y, if they differ. The row has the place `slot` in `values`; it is written at
  the end (steps/write_row), with a lifetime for the `resets`, ms. A row from the future is from before the server's clock was set back, or from a server whose
  clock is ahead: it is moved to now, by a request that is refused, too.
]]
if next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
  place[key] = slot
  values[slot], resets[slot] = pack('<ddd', next_at, next_x, next_y), reset
  if not at or at > now then renewed[slot] = true end
elseif at and retry ~= 0 and not resets[slot] then
  -- Under a slower limit the state matters for longer than the key was to live.
  local left = call('PTTL', key)
  if left < reset then
    -- @include steps/lifetime
    call('PEXPIREAT', key, expire_at)
  end
end
