--[[
  The state under an opened rate, as `standing` gives it, with those who wait counted: a log that was lost while they wait is made
  again from what they have booked.
]]
-- @include standing
-- @include waiting_now
local function rate_state(rate, now, clock)
  local state = standing(rate.limit, rate.log, now, clock, rate.expires_at)
  if state.err then return state end
  local _, _, reset = state.measure(0)
  if reset == 0 then
    for _, waiter in ipairs(waiting_now(rate.line, now)) do state.book(waiter.cost, waiter.turn - now) end
  end
  return state
end
