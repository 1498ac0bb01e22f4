--[[
  Changes the row of `key` from at, x, y to next_at, next_x, next_y, if they differ. The row has the place `slot` in `values`, and steps/write_rows writes it at
  the end. A row from the future is from before the server's clock was set back, or from a server whose clock is ahead: it is moved to now, by a request that
  is refused, too.

  In a batch (`together`) the lifetime of a key is asked for once in a second, because PTTL costs as much as a tenth of a decision: until then it is what the
  row says. So a key that lost its lifetime gets one with the next request that comes alone, or in a later second.
]]
if next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
  place[key] = slot
  local left = expires - server_now
  if not at or at > now then
    left = false
  elseif not together or asked_in ~= second then
    left = call('PTTL', key)
  end
  -- @include steps/lifetime
  if expire_at or expire_ats[slot] == nil then expire_ats[slot] = expire_at end
  values[slot] = pack('<ddddd', next_at, next_x, next_y, expire_at or server_now + left, second)
elseif at and retry ~= 0 and expire_ats[slot] == nil then
  -- Under a slower limit the state matters for longer than the key was to live.
  local left = call('PTTL', key)
  if left < reset then
    -- @include steps/lifetime
    call('PEXPIREAT', key, expire_at)
  end
end
