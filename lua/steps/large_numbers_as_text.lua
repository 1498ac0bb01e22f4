--[[
  Replaces each number of `out` that is within 64 of 2^53 by its text. Some clients read numbers digit by digit and add 48 on the way, so they
  would leave the exact integers. Only limits with such a large quota or window need this.
]]
for i = 2, #out do
  local number = out[i]
  if type(number) == 'number' and math.abs(number) > 9007199254740928 then out[i] = string.format('%.0f', number) end
end
