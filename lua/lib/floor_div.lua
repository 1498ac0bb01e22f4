--[[
  floor(a / b), exact for whole 0 <= a <= 2^53, 0 < b: a float quotient may round up to a whole number that it never reaches, so
  it is checked by multiplying back.
]]
local function floor_div(a, b)
  local quotient = math.floor(a / b)
  if quotient * b > a then return quotient - 1 end
  return quotient
end
