--[[ What of a bucket's level is left now. Time that ran back regains nothing. ]]
local function bucket_level(limit, now, at, level)
  if not at then return 0 end
  return math.max(0, level - limit.quota * math.max(0, now - at))
end
