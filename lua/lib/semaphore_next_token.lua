--[[
  Returns the next fencing token of a semaphore. While its keys live, the token is greater than every earlier one, even if the clock is set back. It is also
  at least the server's time in µs and greater than the newest token that the caller has seen, so that tokens continue to grow if the keys are lost.
]]
local function semaphore_next_token(s)
  s.last = math.max(s.last + 1, s.micros)
  s.issued = true
  return string.format('%.0f', s.last)
end
