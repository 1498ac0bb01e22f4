--[[
  The clients of a shared rate that are not among those whose keys the caller gave: it must come again with theirs too. `known` are
  the client ids in ARGV from `first` on.
]]
local function rate_strangers(first)
  local known = {}
  for i = first, #ARGV do known[ARGV[i]] = true end
  local strangers = {}
  for _, client in ipairs(redis.call('ZRANGE', KEYS[2], '0', '-1')) do
    if not known[client] then strangers[#strangers + 1] = client end
  end
  return strangers
end
