--[[
  What stands within 64 of 2^53 in `out` is spelled: some clients read numbers digit by digit, add 48 on the way, and would leave the
  exact integers. A stretch of code, for limits whose quota or window is that large.
]]
for i = 2, #out do
  local number = out[i]
  if type(number) == 'number' and math.abs(number) > 9007199254740928 then out[i] = string.format('%.0f', number) end
end
