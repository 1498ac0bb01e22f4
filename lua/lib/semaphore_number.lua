--[[
  The next number of a semaphore, greater than any before: a fencing token, or a place in the line. Not below the server's time in µs, so
  that it grows on when the keys have been lost.
]]
local function semaphore_number(s)
  s.last = math.max(s.last + 1, s.micros)
  return string.format('%.0f', s.last)
end
