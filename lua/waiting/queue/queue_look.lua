--[[
  Counts the messages of a delay queue, and lists some. Changes nothing.

  KEYS[1..10]  the queue: see queues.keys
  ARGV[1]      now, ms; '' for the server's clock
  ARGV[2]      for how long dead letters are kept, ms; -1 for good
  ARGV[3]      how many to list
  ARGV[4]      list only those in this state ('ready', 'delayed', 'unacked' or 'dead'); '' for all
  ARGV[5]      list only the message with this id; '' for all

  A message whose visibility has ended is ready, even if the next fetch will find that it has no attempts left.

  Returns ready, delayed, unacked, dead, due moment of the next that is delayed, by the server's clock (-1: none), for
  how long the oldest ready message has been due, ms, in how many ms the next is due (-1: none; a process must not
  measure that by its own clock), 1 if the queue is paused, else 0; how many more there are than listed; and for each
  that is listed: id, state, moment in ms by the server's clock (when it is or was due; of an unacked one the end of its
  visibility, of a dead one its death), attempts, at most a kilobyte of its payload, and the reason of a dead one
]]
local queues = require 'waiting.queue.queues'

local PAYLOAD = 1024

local keys = queues.keys()
local clock = queues.clock(keys, ARGV[1])
local dead_ttl = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])
local state = ARGV[4]
local id = ARGV[5]

local now = clock.now
local counts = { ready = 0, delayed = 0, unacked = 0, dead = 0 }
local oldest, next_due = now, nil
local oldest_dead = queues.oldest_dead(now, dead_ttl)

-- The first rows of a part of `delayed`: the due moments from `from` to `to` of one priority.
local function waiting(from, to, most)
  return redis.call('ZRANGE', keys.delayed, from, to, 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
end

local bands = {}
for priority = 9, 0, -1 do
  local first, due, last = queues.score(priority, 0), queues.score(priority, now), queues.score(priority, queues.BAND)
  local band = { ready = { first, due }, delayed = { '(' .. due, last } }
  bands[#bands + 1] = band
  for name, part in pairs(band) do
    local count = redis.call('ZCOUNT', keys.delayed, part[1], part[2])
    counts[name] = counts[name] + count
    if count > 0 then
      local at = tonumber(waiting(part[1], part[2], 1)[2]) % queues.BAND
      if name == 'ready' then
        oldest = math.min(oldest, at)
      else
        next_due = math.min(next_due or at, at)
      end
    end
  end
end
local lost = redis.call('ZRANGE', keys.unacked, '-inf', now, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
if lost[2] then oldest = math.min(oldest, tonumber(lost[2])) end
local ended = redis.call('ZCOUNT', keys.unacked, '-inf', now)
counts.ready = counts.ready + ended
counts.unacked = redis.call('ZCARD', keys.unacked) - ended
counts.dead = redis.call('ZCOUNT', keys.dead, oldest_dead, '+inf')

-- Those to list: id, state, moment, attempts.
local listed = {}
local function list(name, at, member)
  local _, _, attempts, its_id = queues.parts(member)
  listed[#listed + 1] = { its_id, name, at - clock.ahead_ms, attempts }
end
local function room() return math.max(0, limit - #listed) end

local function list_unacked(name, from, to)
  local rows = redis.call('ZRANGE', keys.unacked, from, to, 'BYSCORE', 'LIMIT', '0', room(), 'WITHSCORES')
  for i = 1, #rows, 2 do list(name, tonumber(rows[i + 1]), rows[i]) end
end

local function list_state(name)
  if name == 'unacked' then
    list_unacked(name, '(' .. string.format('%.0f', now), '+inf')
  elseif name == 'dead' then
    local rows = redis.call('ZRANGE', keys.dead, oldest_dead, '+inf', 'BYSCORE', 'LIMIT', '0', room(), 'WITHSCORES')
    for i = 1, #rows, 2 do listed[#listed + 1] = { rows[i], name, tonumber(rows[i + 1]) - clock.ahead_ms } end
  else
    for _, band in ipairs(bands) do
      local rows = waiting(band[name][1], band[name][2], room())
      for i = 1, #rows, 2 do list(name, tonumber(rows[i + 1]) % queues.BAND, rows[i]) end
    end
    if name == 'ready' then list_unacked(name, '-inf', now) end
  end
end

-- The one message with an id: a waiting one is a member with its tries; a delivered one has been taken once more since,
-- and its attempt has begun or not.
local function list_id()
  local text = redis.call('HGET', keys.messages, id)
  local died = redis.call('ZSCORE', keys.dead, id)
  if text then
    local seq = queues.record(text).seq
    local tries = redis.call('HGET', keys.tries, id) or queues.UNTRIED
    local score = redis.call('ZSCORE', keys.delayed, seq .. tries .. id)
    if score then
      local at = tonumber(score) % queues.BAND
      list(at > now and 'delayed' or 'ready', at, seq .. tries .. id)
    end
    local deliveries, attempts = tonumber(string.sub(tries, 1, 7)), tonumber(string.sub(tries, 8))
    for begun = 0, 1 do
      local receipt = queues.member(seq, deliveries + 1, attempts + begun, id)
      local ends = redis.call('ZSCORE', keys.unacked, receipt)
      if ends then list(tonumber(ends) > now and 'unacked' or 'ready', tonumber(ends), receipt) end
    end
  elseif died and (dead_ttl < 0 or tonumber(died) > now - dead_ttl) then
    listed[1] = { id, 'dead', tonumber(died) - clock.ahead_ms }
  end
  if listed[1] and state ~= '' and state ~= listed[1][2] then listed = {} end
end

local total = 0
if id ~= '' then
  list_id()
  total = #listed
elseif limit > 0 then
  for _, name in ipairs({ 'ready', 'delayed', 'unacked', 'dead' }) do
    if state == '' or state == name then
      list_state(name)
      total = total + counts[name]
    end
  end
end

local function payload_of(text)
  local line = queues.readable(text) and string.find(text, '\n', 45, true) or 0
  local last = line + PAYLOAD
  -- No character of UTF-8 is cut in two: it has at most three more bytes.
  for _ = 1, 3 do
    local after = string.byte(text, last + 1)
    if after and after >= 128 and after < 192 then last = last - 1 end
  end
  return string.sub(text, line + 1, last)
end

-- At most a megabyte of messages, and one of dead letters.
local rows = {}
for _, part in ipairs({ { keys.messages, false }, { keys.graves, true } }) do
  local ids, entries = {}, {}
  for _, entry in ipairs(listed) do
    if (entry[2] == 'dead') == part[2] then
      ids[#ids + 1] = entry[1]
      entries[#entries + 1] = entry
    end
  end
  local texts, count = queues.texts(part[1], ids)
  for i = 1, count do
    local entry, text = entries[i], texts[i]
    local attempts, reason = entry[4], ''
    if text and part[2] then attempts, reason, text = unpack(cmsgpack.unpack(text)) end
    if text then rows[#rows + 1] = { entry[1], entry[2], entry[3], attempts, payload_of(text), reason } end
  end
end

return {
  counts.ready, counts.delayed, counts.unacked, counts.dead, next_due and next_due - clock.ahead_ms or -1, now - oldest,
  next_due and next_due - now or -1, redis.call('ZSCORE', keys.delayed, 'paused') and 1 or 0,
  math.max(0, total - #rows), rows,
}
