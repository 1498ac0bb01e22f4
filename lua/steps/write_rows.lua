--[[
  Writes the `written` rows of `written_rows` under `written_keys`, with the lifetimes `expire_at`; false if the key keeps its lifetime, which costs
  much less. Uses call.
]]
for slot = 1, written do
  if expire_at[slot] then
    call('SET', written_keys[slot], written_rows[slot], 'PXAT', expire_at[slot])
  else
    call('SETRANGE', written_keys[slot], '0', written_rows[slot])
  end
end
