--[[ Reads what a decision spent under each limit from ARGV, from `first` on, four numbers each: charged at, cost, remaining, reset. ]]
local function read_receipts(first, count)
  local receipts = {}
  for i = 1, count do
    receipts[i] = {
      charged_at = tonumber(ARGV[first]),
      cost = tonumber(ARGV[first + 1]),
      remaining = tonumber(ARGV[first + 2]),
      reset = tonumber(ARGV[first + 3]),
    }
    first = first + 4
  end
  return receipts
end
