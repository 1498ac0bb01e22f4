--[[ The moment of this call in us: the server's clock, or the one given in ms (tests and simulation). ]]
local function now_us(given)
  if given ~= '' then return tonumber(given) * 1000 end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
