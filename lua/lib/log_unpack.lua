--[[ Reads an entry that log_pack wrote: at, total. ]]
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
  return struct.unpack(log_formats[#entry], entry)
end
