--[[
  Carries out a request, unless that has happened already: then returns the same answer. (A client that lost its connection before the answer repeats
  the request.) `sent` is the list of one sender's requests that may be repeated, oldest first, each with its number and its answer. Requests with a
  number below `floor` were answered, and are not repeated.

  act() returns the reply, a table, and true if it changed anything: a request without changes may run again. The answer is stored
  for a minute, or for `keep` ms if the object must leave nothing behind for longer; act() may return the ms as its third value.
]]
local function run_once(sent, number, floor, act, keep)
  local newest = redis.call('LINDEX', sent, '-1')
  if newest and struct.unpack('>I7', newest) >= number then
    for _, entry in ipairs(redis.call('LRANGE', sent, '0', '-1')) do
      if struct.unpack('>I7', entry) == number then return cmsgpack.unpack(string.sub(entry, 8)) end
    end
  end
  local reply, changed, life = act()
  if not changed then return reply end
  if newest then
    -- Each call adds one entry and drops up to 16, so that the list grows no longer than the number of requests in flight.
    for _ = 1, 16 do
      local oldest = redis.call('LINDEX', sent, '0')
      if not oldest or struct.unpack('>I7', oldest) >= floor then break end
      redis.call('LPOP', sent)
    end
  end
  redis.call('RPUSH', sent, struct.pack('>I7', number) .. cmsgpack.pack(reply))
  -- Longer than a client retries.
  life = math.min(life or keep or 60000, 60000)
  if redis.call('PTTL', sent) < life then redis.call('PEXPIRE', sent, life) end
  return reply
end
