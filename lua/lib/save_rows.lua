--[[
  Writes rows with their lifetimes. `slots` lists the places in the arrays that are to be written; expire_at gives, for each, the
  text of the moment at which its key may go. One MSET and a PEXPIREAT each cost less than as many SET with a lifetime.
]]
local function save_rows(slots, keys, at, x, y, expire_at)
  if #slots == 0 then return end
  local pairs_of = {}
  for i = 1, #slots do
    local slot = slots[i]
    pairs_of[2 * i - 1] = keys[slot]
    pairs_of[2 * i] = struct.pack('<ddd', at[slot], x[slot], y[slot])
  end
  redis.call('MSET', unpack(pairs_of))
  for i = 1, #slots do
    local slot = slots[i]
    redis.call('PEXPIREAT', keys[slot], expire_at[slot])
  end
end
