--[[ Returns the time of this call in whole ms: by the server's clock, or the given time (tests and simulations). ]]
local function now_ms(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
