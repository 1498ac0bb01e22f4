--[[
  Writes `written_rows` under `written_keys`, of which there are `written`, with the lifetimes `expire_at`; false where the key keeps its own, which costs
  much less. Uses call.
]]
for slot = 1, written do
  if expire_at[slot] then
    call('SET', written_keys[slot], written_rows[slot], 'PXAT', expire_at[slot])
  else
    call('SETRANGE', written_keys[slot], '0', written_rows[slot])
  end
end
