--[[ The four keys of a group of clients whose calls are counted together under a shared rate, from KEYS[i] on: a log, and the line of their waiters. ]]
local function rate_group(i, client)
  return { log = KEYS[i], line = KEYS[i + 1], asks = KEYS[i + 2], meta = KEYS[i + 3], client = client }
end
