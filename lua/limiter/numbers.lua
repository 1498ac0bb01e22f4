-- Divisions of whole numbers. A float quotient may round up to a whole number that it does not reach, so the result is
-- checked by multiplication.
local numbers = {}

--- floor(a / b), exact for whole 0 <= a <= 2^53, 0 < b.
function numbers.floor_div(a, b)
  local quotient = a / b
  quotient = quotient - quotient % 1
  if quotient * b > a then quotient = quotient - 1 end
  return quotient
end

--- ceil(a / b), exact for whole 0 <= a <= 2^53, 0 < b.
function numbers.ceil_div(a, b)
  local quotient = a / b
  quotient = quotient - quotient % 1
  if quotient * b > a then quotient = quotient - 1 end
  if quotient * b < a then quotient = quotient + 1 end
  return quotient
end

return numbers
