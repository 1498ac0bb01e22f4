--[[
  floor(a / b), exact for whole 0 <= a <= 2^53, 0 < b: a float quotient may round up to a whole number that it does not reach, so
  the result is checked by multiplication.
]]
local function floor_div(a, b)
  local quotient = math.floor(a / b)
  if quotient * b > a then return quotient - 1 end
  return quotient
end
