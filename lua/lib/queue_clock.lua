--[[
  The clock of a queue: the server's, except that it never falls. When the server's clock is set back, or a failover leads to a server whose clock is
  behind, this clock goes on from its last moment. So due messages stay due, and delays and visibilities keep their length. It is stored in `clock` while the
  queue holds messages: its last moment, how far it is ahead of the server's clock (both in ms), and the newest stamp, 7 bytes each; then 1 if messages with a
  ttl may be in the queue, else 0.
]]
local function queue_clock(keys, given)
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local server = given ~= '' and tonumber(given) or math.floor(micros / 1000)
  local kept = redis.call('GET', keys.clock)
  local last, ahead, stamp, mortal = 0, 0, 0, 0
  if kept then
    last, ahead, stamp, mortal = struct.unpack('>I7I7I7B', kept)
  end
  ahead = math.max(ahead, last - server)
  return { kept = kept, now = server + ahead, ahead = ahead, stamp = stamp, mortal = mortal, micros = micros }
end

--[[ The first 16 digits of sequence numbers. They grow from call to call: the server's time in µs, or one more than the last. ]]
local function queue_stamp(clock)
  clock.stamp = math.max(clock.stamp + 1, clock.micros)
  return string.format('%016.0f', clock.stamp)
end
