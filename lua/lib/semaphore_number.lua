--[[
  The next fencing token of a semaphore: greater than every one before while its keys live, whatever the clock does. Not below the server's
  time in µs, nor below what the caller has seen, so that it grows on when the keys have been lost.
]]
local function semaphore_number(s)
  s.last = math.max(s.last + 1, s.micros)
  return string.format('%.0f', s.last)
end
