--[[
  The first index in [low, high) of a queue whose booking passes test(turn, total, ticket), or high if none does; with it, its
  turn, total, ticket and permits. Bookings must fail up to some index and pass from there on.
]]
-- @include booking_unpack
local function booking_search(queue, low, high, test)
  local found_turn, found_total, found_ticket, found_permits
  while low < high do
    local middle = math.floor((low + high) / 2)
    local turn, total, ticket, permits = booking_unpack(redis.call('LINDEX', queue, middle))
    if test(turn, total, ticket) then
      high, found_turn, found_total, found_ticket, found_permits = middle, turn, total, ticket, permits
    else
      low = middle + 1
    end
  end
  return high, found_turn, found_total, found_ticket, found_permits
end
