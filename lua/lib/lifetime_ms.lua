--[[
  How long a key lives from now on: until it is as if never used, and a little longer, because no decision may depend on expiry.
  A given clock may stand still while the server's does not, hence the longer padding.
]]
local function lifetime_ms(reset, clock)
  if clock ~= '' then return reset + 5000 end
  return reset + 1000
end
