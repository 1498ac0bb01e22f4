--[[
  The next number of the state, larger than any before: for a booking its ticket, for a change of turns its revision. It starts
  from the time in us, so that numbers of a state that was lost do not come again.
]]
local function rate_ticket(state, now)
  state.ticket = math.max(state.ticket + 1, now * 1000)
  state.changed = true
  return state.ticket
end
