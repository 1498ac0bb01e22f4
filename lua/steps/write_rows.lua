--[[ Writes rows with their lifetimes: `writes`, keys and rows in turn, of which there are `written`, and `expire_at`. Uses call. ]]
-- One MSET and a PEXPIREAT each cost less than as many SET with a lifetime; but for one alone.
if written == 1 then
  call('SET', writes[1], writes[2], 'PXAT', expire_at[1])
elseif written > 0 then
  call('MSET', unpack(writes))
  for slot = 1, written do call('PEXPIREAT', writes[2 * slot - 1], expire_at[slot]) end
end
