--[[ The limits in ARGV from `first` on, four numbers or names each. Returns the list and the index after it. ]]
local function read_limits(first, count)
  local limits = {}
  for i = 1, count do
    limits[i] = {
      algorithm = ARGV[first],
      quota = tonumber(ARGV[first + 1]),
      window = tonumber(ARGV[first + 2]),
      burst = tonumber(ARGV[first + 3]),
    }
    first = first + 4
  end
  return limits, first
end
