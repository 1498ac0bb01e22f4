--[[
  Returns the first index in [low, high) of the list whose entry passes test(at, total), or high if none does; and the entry's at
  and total. All entries before that index must fail, and all from there on must pass.
]]
-- @include log_unpack
local function log_search(key, low, high, test)
  local found_at, found_total
  while low < high do
    local middle = math.floor((low + high) / 2)
    local at, total = log_unpack(redis.call('LINDEX', key, middle))
    if test(at, total) then
      high, found_at, found_total = middle, at, total
    else
      low = middle + 1
    end
  end
  return high, found_at, found_total
end
