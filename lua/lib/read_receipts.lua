--[[ What a decision spent under each limit, in ARGV from `first` on, three numbers each: charged at, remaining, reset. ]]
local function read_receipts(first, count)
  local receipts = {}
  for i = 1, count do
    receipts[i] = {
      charged_at = tonumber(ARGV[first]),
      remaining = tonumber(ARGV[first + 1]),
      reset = tonumber(ARGV[first + 2]),
    }
    first = first + 3
  end
  return receipts
end
