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

--[[
  Stores the clock of a queue at the end of a script that may have changed the queue. If all messages have a ttl, the keys get a lifetime, so that they vanish
  without a consumer: an hour after the last ttl, or after the last visibility. Within that hour, a consumer finds deliveries that were not acknowledged in
  time. A pause must not be forgotten: while it lasts, there is no lifetime.

  `removed`: messages may have been removed. `added`: some were added.
]]
local QUEUE_KEEP = 3600000
local function queue_save(keys, clock, removed, added)
  -- The clock is stored if and only if the queue held messages.
  if not (clock.kept or added) then return end
  local count = removed and redis.call('HLEN', keys.messages)
  if count == 0 then
    redis.call('DEL', keys.clock)
    return
  end
  local mortal = clock.mortal == 1 and redis.call('ZCARD', keys.ttls) or 0
  local state = struct.pack('>I7I7I7B', clock.now, clock.ahead, clock.stamp, mortal > 0 and 1 or 0)
  if state ~= clock.kept then redis.call('SET', keys.clock, state) end
  -- Then no key has a lifetime: keys that had one are gone with the last message that had a ttl.
  if mortal == 0 then return end
  local stored = { keys.delayed, keys.unacked, keys.messages, keys.tries, keys.ttls, keys.clock }
  count = count or redis.call('HLEN', keys.messages)
  if mortal >= count and not redis.call('ZSCORE', keys.delayed, 'paused') then
    local ttl = redis.call('ZRANGE', keys.ttls, '-1', '-1', 'WITHSCORES')
    local visible = redis.call('ZRANGE', keys.unacked, '-1', '-1', 'WITHSCORES')
    local last = math.max(clock.now, tonumber(ttl[2]), tonumber(visible[2] or 0))
    local life = string.format('%.0f', last - clock.now + QUEUE_KEEP)
    for _, key in ipairs(stored) do
      redis.call('PEXPIRE', key, life)
    end
  elseif redis.call('PTTL', keys.messages) >= 0 then
    for _, key in ipairs(stored) do
      redis.call('PERSIST', key)
    end
  end
end
