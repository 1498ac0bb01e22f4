--[[
  Writes `row` under `key`, with a lifetime if it has none that suffices. `fresh`: the key is new, or its row was repaired (see steps/spend_row), so its
  lifetime is set whatever it is. Reads what steps/lifetime reads, but for `left`; uses call.
]]
local left = not fresh and call('PTTL', key)
-- @include steps/lifetime
if expire_at then
  call('SET', key, row, 'PXAT', expire_at)
else
  -- This costs half as much.
  call('SETRANGE', key, '0', row)
end
