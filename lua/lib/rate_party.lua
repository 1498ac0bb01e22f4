--[[ The four keys of the clients that count together under a shared rate, from KEYS[i] on: a log, and the line of their waiters. ]]
local function rate_party(i, client)
  return { log = KEYS[i], line = KEYS[i + 1], asks = KEYS[i + 2], meta = KEYS[i + 3], client = client }
end
