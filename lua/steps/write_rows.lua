--[[
  Writes those of `values` that have changed under their `keys`, which follow `shared` others, with the lifetimes `expire_at`: nil if nothing has changed, false
  if the key keeps its lifetime, which costs much less. Uses call.
]]
for slot = 1, #values do
  local text = expire_at[slot]
  if text then
    call('SET', keys[shared + slot], values[slot], 'PXAT', text)
  elseif text == false then
    call('SETRANGE', keys[shared + slot], '0', values[slot])
  end
end
