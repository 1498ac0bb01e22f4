--[[ ceil(a / b), exact for whole 0 <= a, 0 < b. ]]
local function ceil_div(a, b)
  local rest = math.fmod(a, b)
  if rest > 0 then return (a - rest) / b + 1 end
  return a / b
end
