--[[
  Returns the groups of a shared rate that are counted separately, as a list of rate_group: first the group of all clients together, then a
  group for each client. The clients are named in ARGV from `first` on, and their keys begin at KEYS[7]. If keys of clients are missing, returns
  nil and these clients: the caller must repeat the call with their keys, too.
]]
-- @include rate_group
local function rate_groups(first)
  local groups, known = { rate_group(3) }, {}
  for i = first, #ARGV do
    known[ARGV[i]] = true
    groups[#groups + 1] = rate_group(7 + (i - first) * 4, ARGV[i])
  end
  local missing = {}
  for _, client in ipairs(redis.call('ZRANGE', KEYS[2], '0', '-1')) do
    if not known[client] then missing[#missing + 1] = client end
  end
  if #missing > 0 then return nil, missing end
  return groups
end
