--[[
  Settles deliveries of a process from a delay queue, then takes due messages for it.

  KEYS[1..10]  the queue: see queues.keys
  KEYS[11]     the last fetch of this process: see queue_fetch
  ARGV[1]      now, ms; '' for the server's clock
  ARGV[2]      'look' for messages whose visibility has ended; 'watch' to look, if the process then asks again when the
               next message is due, so that no other process need be woken; 'sweep' if these may be the last messages;
               else ''
  ARGV[3]      number of this fetch; 0 if the call only settles. A number that was carried out before is answered with
               the same messages, a lower one with none
  ARGV[4]      for how long dead letters are kept, ms; -1 for good
  ARGV[5]      number of settlements; then for each: what ('ack', 'nack', 'return', 'return_not_begun', 'reject',
               'extend', 'begin'), receipt, end of its visibility as the process knows it (ms), and, by kind: 1 if it
               has a ttl; delay in ms; due moment in ms (twice); reason; visibility in ms (twice)
  then         for each message that is wanted, its visibility: for how long no other process receives it, ms. Negative:
               its attempt counts from 'begin' on, and is put back by 'return_not_begun' before

  The messages of one call exceed a megabyte together only if there is one.

  Returns  for each settlement 0 if the delivery is stale, else 1; for extend and begin the new end of its visibility;
           -1 for begin if the queue is paused: then nothing begins now, ms moment of the next message: when it is due,
           together with those within 3 ms after it; -1 if there is none moment of the next end of a visibility; -1 if
           there is none, or if not asked to look for each message: receipt, due moment, end of its visibility (negative
           if its attempt does not count yet), record; how many messages became dead letters because their last
           visibility has ended; how far the queue's clock, which gave these moments, is ahead of the server's, ms; the
           version of the queue: see queues.save
]]
local queues = require 'waiting.queue.queues'

local keys = queues.keys()
local last_fetch = KEYS[11]
local given = ARGV[1]
local watch = ARGV[2] == 'watch'
local look = watch or ARGV[2] == 'look'
local sweep = ARGV[2] == 'sweep'
local number = tonumber(ARGV[3])
local dead_ttl = tonumber(ARGV[4])
local settlements = tonumber(ARGV[5])

-- Messages due within this time are fetched together.
local TOGETHER = 3
-- How many messages that are not due yet are examined for that.
local AHEAD = 8
-- Idle processes search for ended visibilities at this interval anyway.
local SAFETY = 2000

local clock = queues.clock(keys, given)
local now = clock.now

-- Before the end of its visibility only the holder can settle a delivery, unless the queue is cleared. So a receipt
-- that is missing was settled by an earlier copy of this request.
local function settled_before()
  return redis.call('EXISTS', keys.cleared_mark) == 0 and 1 or 0
end

local settled = {}
local acks = {}
-- Whether messages may have left the queue.
local removed = false
for i = 1, settlements do
  local at = 6 + (i - 1) * 4
  local what, member, visible, detail = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3]
  if now >= visible then
    settled[i] = 0
  elseif what == 'ack' then
    acks[#acks + 1] = { i = i, member = member, has_ttl = detail == '1' }
  elseif what == 'extend' then
    settled[i] = 0
    if redis.call('ZSCORE', keys.unacked, member) then
      settled[i] = now + tonumber(detail)
      redis.call('ZADD', keys.unacked, settled[i], member)
    end
  elseif what == 'begin' then
    settled[i] = 0
    local seq, deliveries, attempts, id = queues.parts(member)
    local begun = queues.member(seq, deliveries, attempts + 1, id)
    -- It began by an earlier copy of this request.
    local repeated = redis.call('ZSCORE', keys.unacked, begun)
    if repeated or redis.call('ZSCORE', keys.unacked, member) then
      if not repeated and redis.call('ZSCORE', keys.delayed, 'paused') then
        settled[i] = -1
      else
        settled[i] = now + tonumber(detail)
        redis.call('ZREM', keys.unacked, member)
        redis.call('ZADD', keys.unacked, settled[i], begun)
      end
    end
  elseif redis.call('ZREM', keys.unacked, member) == 0 then
    settled[i] = settled_before()
  else
    settled[i] = 1
    local seq, deliveries, attempts, id = queues.parts(member)
    local text = redis.call('HGET', keys.messages, id)
    if what == 'reject' then
      queues.bury(keys, now, id, text, attempts, detail, dead_ttl)
      removed = true
    elseif text and queues.outlived(text, now) then
      queues.forget(keys, id)
      removed = true
    elseif text then
      local due = tonumber(detail)
      if what == 'nack' then due = now + due end
      if what == 'return' then member = queues.member(seq, deliveries, attempts - 1, id) end
      local priority = queues.record(text).priority
      redis.call('ZADD', keys.delayed, queues.score(priority, due), member)
      -- Idle processes know the first waiting message. This process may have no room for it, or end.
      local first = redis.call('ZRANGE', keys.delayed, queues.score(priority, 0), '+inf', 'BYSCORE', 'LIMIT', '0', '1')
      if first[1] == member then queues.wake(keys) end
      redis.call('HSET', keys.tries, id, string.sub(member, 21, 34))
    end
  end
end

if #acks > 0 then
  local members, ids = {}, {}
  for k, ack in ipairs(acks) do
    members[k] = ack.member
  end
  local all = redis.call('ZREM', keys.unacked, unpack(members)) == #acks
  local again, ids_with_ttl = {}, {}
  for _, ack in ipairs(acks) do
    local id = string.sub(ack.member, 35)
    local text = not all and redis.call('HGET', keys.messages, id)
    -- The id may belong to another message by now.
    if all or (text and queues.record(text).seq == string.sub(ack.member, 1, 20)) then
      settled[ack.i] = 1
      ids[#ids + 1] = id
      if ack.has_ttl then ids_with_ttl[#ids_with_ttl + 1] = id end
      if string.sub(ack.member, 21, 27) ~= '0000001' then again[#again + 1] = id end
    else
      settled[ack.i] = settled_before()
    end
  end
  if #ids > 0 then
    redis.call('HDEL', keys.messages, unpack(ids))
    removed = true
  end
  if #again > 0 then redis.call('HDEL', keys.tries, unpack(again)) end
  if #ids_with_ttl > 0 then redis.call('ZREM', keys.ttls, unpack(ids_with_ttl)) end
  -- No process need be woken for an empty queue.
  if sweep and redis.call('HLEN', keys.messages) == 0 then redis.call('DEL', keys.wake) end
end

local next_end, buried, same = -1, 0, settlements == 0
if look then
  -- This process now learns what all of them were woken for.
  if watch then redis.call('DEL', keys.wake) end
  local gone, ended
  buried, gone, ended = queues.expire(keys, now, 100, dead_ttl)
  same = same and not ended
  queues.drop_dead(keys, now, dead_ttl, 100)
  removed = removed or gone
  local row = redis.call('ZRANGE', keys.unacked, '0', '0', 'WITHSCORES')
  if row[2] then next_end = tonumber(row[2]) end
end

-- Carried out by an earlier copy of this request, or nothing was asked for.
local fetch_record = number > 0 and redis.call('GET', last_fetch)
if number == 0 or queues.fetch_number(fetch_record) > number then
  local version = queues.save(keys, clock, removed, false, same)
  return { settled, now, -1, next_end, {}, buried, clock.ahead_ms, version }
end
if queues.fetch_number(fetch_record) == number then
  local before, taken = queues.fetch_taken(fetch_record), {}
  for i = 1, #before, 3 do
    local receipt, visibility = before[i], before[i + 2]
    local visible = now + math.abs(visibility)
    -- Its visibility may have ended, or it was settled.
    local text = redis.call('ZSCORE', keys.unacked, receipt)
      and redis.call('HGET', keys.messages, string.sub(receipt, 35))
    if text then
      redis.call('ZADD', keys.unacked, visible, receipt)
      taken[#taken + 1] = receipt
      taken[#taken + 1] = before[i + 1]
      taken[#taken + 1] = visibility < 0 and -visible or visible
      taken[#taken + 1] = text
    end
  end
  local version = queues.save(keys, clock, removed, false, same and #taken == 0)
  return { settled, now, now, next_end, taken, buried, clock.ahead_ms, version }
end

local wants = 5 + settlements * 4
local wanted = #ARGV - wants
local members, ids, dues = {}, {}, {}
local first, last
local from = wanted > 0 and '-inf'
while from do
  local most = wanted - #members + AHEAD
  local rows = redis.call('ZRANGE', keys.delayed, from, '+inf', 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
  from = nil
  local other = nil
  for i = 1, #rows, 2 do
    local score = tonumber(rows[i + 1])
    -- The queue is paused.
    if score < 0 then break end
    local band = math.floor(score / queues.BAND)
    local due = score - band * queues.BAND
    if other and band ~= other then break end
    if due > now then
      -- The other messages of this priority are not due either.
      if not other then
        other = band
        if band < 9 then from = string.format('%.0f', (band + 1) * queues.BAND) end
        if first and first <= due then break end
        first, last = due, due
      elseif due <= first + TOGETHER then
        last = due
      else
        break
      end
    elseif #members < wanted then
      members[#members + 1] = rows[i]
      ids[#ids + 1] = string.sub(rows[i], 35)
      dues[#dues + 1] = due
    else
      first, last = now, now
      from = nil
      break
    end
  end
end

local keep, taken, places, lost = {}, {}, {}, {}
local shortest = math.huge
if #members > 0 then
  local texts, count = queues.texts(keys.messages, ids)
  -- The rest is taken by the next call.
  if count < #members then last = now end
  redis.call('ZREM', keys.delayed, unpack(members, 1, count))
  for i = 1, count do
    local text = texts[i]
    local seq, deliveries, attempts = queues.parts(members[i])
    if text and not queues.readable(text) then
      local found = string.format('%q', string.sub(text, 1, 1))
      local reason = string.format('record of version %s cannot be read: expected version "%s"', found, queues.VERSION)
      queues.bury(keys, now, ids[i], text, attempts + 1, reason, dead_ttl)
      removed = true
      -- Other messages may take its place.
      last = now
    else
      local ttl = text and tonumber(string.sub(text, 23, 37))
      if text and (ttl == 0 or ttl > now) then
        local visibility = tonumber(ARGV[wants + #taken / 4 + 1])
        local counts = visibility >= 0 and 1 or 0
        local receipt = queues.member(seq, deliveries + 1, attempts + counts, ids[i])
        local length = math.abs(visibility)
        if length < shortest then shortest = length end
        places[#places + 1] = now + length
        places[#places + 1] = receipt
        keep[#keep + 1] = receipt
        keep[#keep + 1] = dues[i]
        keep[#keep + 1] = visibility
        taken[#taken + 1] = receipt
        taken[#taken + 1] = dues[i]
        taken[#taken + 1] = visibility < 0 and -now - length or now + length
        taken[#taken + 1] = text
      else
        lost[#lost + 1] = ids[i]
      end
    end
  end
end
if #lost > 0 then
  redis.call('HDEL', keys.messages, unpack(lost))
  redis.call('HDEL', keys.tries, unpack(lost))
  redis.call('ZREM', keys.ttls, unpack(lost))
  removed = true
  -- Other messages may take their place.
  last = now
end
if #places > 0 then
  if shortest < SAFETY then
    -- Idle processes know the first visibility that ends, and learn of later ones when it does.
    local row = redis.call('ZRANGE', keys.unacked, '0', '0', 'WITHSCORES')
    if not row[2] or tonumber(row[2]) > now + shortest then queues.wake(keys) end
  end
  redis.call('ZADD', keys.unacked, unpack(places))
end
-- Recorded even if it took nothing: this request may arrive again when its answer is no longer read.
queues.fetch_keep(last_fetch, number, keep)
local version = queues.save(keys, clock, removed, false, same and #members == 0)
return { settled, now, last or -1, next_end, taken, buried, clock.ahead_ms, version }
