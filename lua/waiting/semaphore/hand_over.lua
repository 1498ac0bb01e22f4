-- The quick way of a semaphore's waiters.
local ask_texts = require 'waiting.line.asks'
local semaphores = require 'waiting.semaphore.semaphores'
local lines = require 'waiting.line.lines'
local hand_over = {}

--[[
  The most common ask of a process whose waiters are at the head of the line: it ends leases or adds waiters, and its
  first waiters get the free permits, one each. This does the same as semaphores.open, asks.handle and semaphores.save
  with half of the commands, but only if all leases concerned are without a fact (see semaphores.sweep), nothing has
  ended by itself, no lifetime is due, and the first waiter that remains must wait and belongs to the asker, too. For
  any other ask it returns nil and writes nothing.

  `time` is the answer of TIME; `stored` and `member_fields` are the fields of the semaphore and of the member's record
  that semaphore_ask has read. `newest_seen` is the newest token that the caller has seen. Not used with a given clock
  (of a test), or if the semaphore has a lifetime.
]]
function hand_over.try(time, stored, member_fields, member, number, newest_seen)
  if stored[3] ~= semaphores.VERSION then return nil end
  local call, match, format = redis.call, string.match, string.format
  local leases, line, asks, meta, record = KEYS[2], KEYS[4], KEYS[5], KEYS[6], KEYS[8]
  local prefix, permits, micros = member .. ' ', tonumber(stored[1]), time[1] * 1000000 + time[2]
  local now = math.floor(micros / 1000)

  local ended, joining, known = {}, {}, {}
  for letter, id, third, most in string.gmatch(ARGV[11], ask_texts.CHANGE) do
    if third ~= '' or known[id] then return nil end
    known[id] = true
    if letter == 'e' then
      ended[#ended + 1] = id
    elseif letter == 'j' and most ~= '0' then
      joining[#joining + 1] = id
    else
      return nil
    end
  end

  -- While permits are taken directly, the key of the leases has another name.
  local scores = call('ZMSCORE', leases, '!extra', '!last', unpack(ended))
  local last_token, extra = tonumber(scores[2] or nil), -1 - (tonumber(scores[1] or nil) or -1)
  if not semaphores.is_kept(last_token, micros) then return nil end
  for i = 3, #scores do
    if not scores[i] then return nil end
  end
  local first_end = tonumber(call('ZRANGEBYSCORE', leases, '0', semaphores.ABOVE, 'WITHSCORES', 'LIMIT', '0', '1')[2])
  if not first_end or first_end <= now then return nil end
  local line_fields = call('HMGET', meta, 'v', 'last', 'units', 'fresh')
  local asks_by = tonumber(call('ZSCORE', asks, member) or nil)
  if line_fields[1] ~= lines.VERSION or not asks_by then return nil end
  local age = now - line_fields[4]
  if age < 0 or age >= lines.LIFE_MS / 6 then return nil end

  local ticket, units, places = math.max(line_fields[2] + 1, micros), tonumber(line_fields[3]), {}
  for i, waiter in ipairs(joining) do
    local cost = tonumber(match(waiter, '^%d+ (%d+) '))
    if cost > permits then return nil end
    units = units + cost
    places[2 * i - 1], places[2 * i] = format('%.0f', ticket + i - 1), prefix .. waiter
  end
  local free = permits - (call('ZCOUNT', leases, '0', semaphores.ABOVE) + extra - #ended)
  if free < 0 or free > 100 then return nil end
  local ids = call('ZRANGE', line, '0', free)
  if #ids <= free or ids[1] ~= prefix .. ARGV[10] then return nil end
  local granted, entries, token = {}, {}, math.max(newest_seen, last_token)
  for i = 1, #ids do
    local waiter, ms, name = match(ids[i], '^(%d+) 1 (%d+) (~%S+)$', #prefix + 1)
    if not waiter or string.sub(ids[i], 1, #prefix) ~= prefix then return nil end
    if i <= free then
      local deadline = now + ms
      token = math.max(token + 1, micros)
      first_end = math.min(first_end, deadline)
      granted[i] = waiter .. ' ' .. format('%.0f', token) .. ' ' .. deadline
      entries[2 * i - 1], entries[2 * i] = deadline, name
    end
  end

  local stamp = ticket + #joining
  -- Every 20 s, and in the first such ask after another one: the next one may grant, whatever is granted now.
  local is_stale = math.abs(stamp - (tonumber(member_fields[4]) or 0)) > 20000000
  if is_stale then semaphores.note_holder(leases, member, micros) end
  if #ended > 0 then call('ZREM', leases, unpack(ended)) end
  if free > 0 then
    call('ZREMRANGEBYRANK', line, '0', free - 1)
    call('ZADD', leases, format('%.0f', token), '!last', unpack(entries))
  end
  if #joining > 0 then call('ZADD', line, unpack(places)) end
  local stamp_text = format('%.0f', stamp)
  call('HSET', meta, 'last', stamp_text, 'units', units - free)
  -- If the stored time of the next ask is close enough, it need not be written.
  local next = math.max(1, math.min(ask_texts.GUESS_MS, first_end - now))
  if asks_by <= now + next and asks_by > now + next - 1000 and asks_by > now then
    next = asks_by - now
  else
    call('ZADD', asks, now + next, member)
  end
  local waiting = member_fields[3] + #joining - free
  -- As asks.answer writes it; the numbers without a format have less than 15 digits.
  local first_ticket = #joining > 0 and format('%.0f', ticket) or 0
  local head = { 1, stamp_text, now, 0, next, waiting, first_ticket, stored[1], -1 }
  local results = #ended > 0 and '1' .. string.rep(' 1', #ended - 1) or ''
  local reply = table.concat(head, ' ') .. ',' .. table.concat(granted, ' ') .. ',,' .. results
  local fresh = is_stale and stamp_text or member_fields[4]
  call('HSET', record, 'n', number, 'stamp', stamp_text, 'c', waiting, 'reply', reply, 'fresh', fresh)
  -- The record lives for a minute at least: a lifetime costs as much as a lease.
  if is_stale then call('PEXPIRE', record, lines.LIFE_MS + 20000) end
  return reply
end

return hand_over
