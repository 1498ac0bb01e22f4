--[[
  The logs and lines of a shared rate, as a list of { log, line, client }, the first of which is that of all processes together. The
  clients are named in ARGV from `first` on, their keys begin at KEYS[5]. Or nil and the clients whose keys were not given: the caller
  must come again with theirs too.
]]
local function rate_parties(first)
  local parties, known = { { log = KEYS[3], line = KEYS[4] } }, {}
  for i = first, #ARGV do
    local at = 5 + (i - first) * 2
    known[ARGV[i]] = true
    parties[#parties + 1] = { log = KEYS[at], line = KEYS[at + 1], client = ARGV[i] }
  end
  local strangers = {}
  for _, client in ipairs(redis.call('ZRANGE', KEYS[2], '0', '-1')) do
    if not known[client] then strangers[#strangers + 1] = client end
  end
  if #strangers > 0 then return nil, strangers end
  return parties
end
