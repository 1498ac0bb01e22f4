--[[ Reads an entry that log_pack wrote: at, total, and of a lease its ttl. ]]
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7', [17] = '>I6I7I4' }
local function log_unpack(entry)
  local at, total, third = struct.unpack(log_formats[#entry], entry)
  return at, total, #entry == 17 and third or nil
end
