-- What keeps scripts in time, and repeated ones from acting twice.
local timely = {}

--- Returns the time of this call in whole ms: by the server's clock, or the given time (tests and simulations).
function timely.now_ms(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

--- Whether now is later than the last argument of the script, the last moment at which it may act, ms. The script then
--- returns only now.
function timely.is_late(now)
  return now > tonumber(ARGV[#ARGV])
end

--[[
  Carries out a request, unless that has happened already: then returns the same answer. (A client that lost its
  connection before the answer repeats the request, and requests that are repeated may overtake each other.) The last of
  KEYS is a ZSET of one sender's requests that may be repeated: number → the number and its answer. ARGV[1] is the
  number of this request; those below ARGV[2] were answered, and are not repeated.

  act() returns the reply, a table, and true if it changed anything: a request without changes may run again. The answer
  is stored for a minute, which is longer than a client retries.
]]
function timely.run_once(act)
  local sent, number, lowest_open = KEYS[#KEYS], tonumber(ARGV[1]), tonumber(ARGV[2])
  local kept = redis.call('ZRANGEBYSCORE', sent, number, number)[1]
  if kept then return cmsgpack.unpack(string.sub(kept, 8)) end
  local reply, changed = act()
  if not changed then return reply end
  -- Each call adds one entry and drops up to 16, so that the set grows no larger than the number of requests in flight.
  local answered = redis.call('ZRANGEBYSCORE', sent, '-inf', '(' .. lowest_open, 'LIMIT', '0', '16')
  if #answered > 0 then redis.call('ZREM', sent, unpack(answered)) end
  redis.call('ZADD', sent, number, struct.pack('>I7', number) .. cmsgpack.pack(reply))
  redis.call('PEXPIRE', sent, '60000')
  return reply
end

return timely
