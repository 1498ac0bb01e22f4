--[[ Reads a booking: turn, total, ticket, permits. ]]
local function booking_unpack(booking)
  return struct.unpack('>I6I7I7I4', booking)
end
