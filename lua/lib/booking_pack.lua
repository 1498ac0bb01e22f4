--[[
  A booking as it stands in the queue of a rate: its turn (ms), the total that will have been spent with it (it continues the
  totals of the log), its ticket and its permits.
]]
local function booking_pack(turn, total, ticket, permits)
  return struct.pack('>I6I7I7I4', turn, total, ticket, permits)
end
