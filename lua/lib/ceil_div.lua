--[[ ceil(a / b), exact for whole 0 <= a <= 2^53, 0 < b. ]]
-- @include floor_div
local function ceil_div(a, b)
  local quotient = floor_div(a, b)
  if quotient * b < a then return quotient + 1 end
  return quotient
end
