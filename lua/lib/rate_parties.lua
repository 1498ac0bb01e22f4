--[[
  Those who count apart under a shared rate, as a list of rate_party, the first of which is all clients together. The clients are named in
  ARGV from `first` on, their keys begin at KEYS[7]. Or nil and the clients whose keys were not given: the caller must come again with
  theirs too.
]]
-- @include rate_party
local function rate_parties(first)
  local parties, known = { rate_party(3) }, {}
  for i = first, #ARGV do
    known[ARGV[i]] = true
    parties[#parties + 1] = rate_party(7 + (i - first) * 4, ARGV[i])
  end
  local strangers = {}
  for _, client in ipairs(redis.call('ZRANGE', KEYS[2], '0', '-1')) do
    if not known[client] then strangers[#strangers + 1] = client end
  end
  if #strangers > 0 then return nil, strangers end
  return parties
end
