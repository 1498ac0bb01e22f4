--[[ floor(a / b), exact for whole 0 <= a, 0 < b: a float quotient may round up to a whole number that it never reaches. ]]
local function floor_div(a, b)
  return (a - math.fmod(a, b)) / b
end
