--[[
  A fast path for the most common ask of a process whose waiters are at the head of the line: leases end, or more of its requests join, and free permits go to
  its first waiters. It does what semaphore_open, line_ask and semaphore_save do, with a third of the commands, and only while the first waiter that is
  left has to wait and is the asker's too. Returns nil, and has written nothing, if the ask is another.

  `stored` and `asked` are what semaphore_ask has read of the semaphore and of the member. The server's clock only, and no lifetime of the semaphore.
]]
-- @include line_answer
-- @include semaphore_answered
local function semaphore_hand_over(stored, asked, member, number, floor)
  local call, match, find, format = redis.call, string.match, string.find, string.format
  local leases, facts, line, asks, meta, record = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[8]
  local total, used, last, waiting = tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[3]), tonumber(asked[3]) or 0
  local head, prefix = ARGV[10], member .. ' '
  if head == '' or not last then return nil end

  -- The content of the ask.
  local ended, tokens, joins = {}, {}, {}
  for letter, id, third, most in string.gmatch(ARGV[11], LINE_CHANGE) do
    if letter == 'e' then
      ended[#ended + 1] = id
      tokens[#tokens + 1] = third
    elseif letter == 'j' and third == '' and most ~= '0' then
      joins[#joins + 1] = id
    else
      return nil
    end
  end
  local held, known = #ended > 0 and call('HMGET', facts, unpack(ended)) or {}, {}
  local single = '1 ' .. prefix
  for i = 1, #held do
    local fact, token = held[i], tokens[i]
    local permits = 1
    if fact ~= single .. token then
      local stored_token
      permits, stored_token = match(fact or '', '^(%d+) %S+ (%d+)$')
      if stored_token ~= token then return nil end
    end
    if known[token] then return nil end
    known[token] = true
    used = used - permits
  end

  -- The state of the line and the leases.
  local time = call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local now = math.floor(micros / 1000)
  local lined = call('HMGET', meta, 'v', 'last', 'units', 'fresh')
  local by = tonumber(call('ZSCORE', asks, member) or nil)
  local first = tonumber(call('ZRANGE', leases, '0', '0', 'WITHSCORES')[2])
  local ticket, units, age = tonumber(lined[2]), tonumber(lined[3]), now - (tonumber(lined[4]) or 0)
  -- The last command renews the lifetimes of the line, as line_save does.
  if lined[1] ~= '1' or not ticket or not units or not by or not first or first <= now or age < 0 or age >= 10000 then return nil end

  -- The waiters that it serves.
  local free = total - used
  if free < 0 or free > 100 then return nil end
  local ids = call('ZRANGE', line, '0', free)
  if ids[1] ~= prefix .. head then return nil end
  local granted, served, facts_to_write, deadlines, latest = {}, 0, {}, {}, 0
  if floor > last then last = floor end
  -- Most leases last as long as the one before, and one permit is the most common cost: their common text is computed once.
  local same_ms, deadline, deadline_text
  for i = 1, #ids do
    local id = ids[i]
    if find(id, prefix, 1, true) ~= 1 then return nil end
    local waiter, cost, ms, lease = match(id, '^(%d+) (%d+) (%d+) (%S+)$', #prefix + 1)
    local units_of = cost == '1' and 1 or tonumber(cost)
    if not units_of or units_of > total then return nil end
    if units_of > free then break end
    free = free - units_of
    last = last < micros and micros or last + 1
    if ms ~= same_ms then
      same_ms, deadline = ms, now + ms
      deadline_text = format('%.0f', deadline)
      if deadline < first then first = deadline end
      if deadline > latest then latest = deadline end
    end
    local token = format('%.0f', last)
    served = i
    local two, three = 2 * i, 3 * i
    facts_to_write[two - 1] = lease
    facts_to_write[two] = cost .. ' ' .. prefix .. token
    deadlines[two - 1] = deadline_text
    deadlines[two] = lease
    granted[three - 2] = waiter
    granted[three - 1] = token
    granted[three] = deadline_text
  end
  -- No earlier waiter is left: the joining ones may be served.
  if served == #ids then return nil end
  units = units - (total - used - free)
  used = total - free

  -- Joining waiters come last.
  local opening = math.max(ticket + 1, micros)
  local places = {}
  for i = 1, #joins do
    local tail = joins[i]
    local cost = tonumber(match(tail, '^%d+ (%d+) '))
    if not cost or cost > total then return nil end
    units = units + cost
    ticket = opening + i - 1
    places[2 * i - 1] = format('%.0f', ticket)
    places[2 * i] = prefix .. tail
  end
  local stamp = math.max(ticket + 1, micros)
  local stamp_text = format('%.0f', stamp)

  if served > 0 then
    call('ZREMRANGEBYRANK', line, '0', served - 1)
    call('HSET', facts, unpack(facts_to_write))
    call('ZADD', leases, unpack(deadlines))
  end
  if #ended > 0 then
    -- After the new ones, so that keys with a lifetime never become empty.
    call('ZREM', leases, unpack(ended))
    call('HDEL', facts, unpack(ended))
  end
  if #joins > 0 then call('ZADD', line, unpack(places)) end
  local life = tonumber(stored[6]) or 0
  if latest > 0 and (life < latest + 1000 or tonumber(stored[2]) == 0) then
    life = math.max(life, latest + 1000 + math.ceil((latest - now) / 4))
    call('PEXPIRE', leases, life - now)
    call('PEXPIRE', facts, life - now)
  end
  if #ended + served > 0 then
    call('HSET', KEYS[1], 'used', format('%d', used), 'last', format('%.0f', last), 'life', format('%.0f', life))
  end
  call('HSET', meta, 'last', stamp_text, 'units', format('%.0f', units))
  -- It need not be told a new time to ask if the old one is close enough.
  local next = math.max(1, math.min(5000, first - now))
  if by <= now + next and by > now + next - 1000 and by > now then
    next = by - now
  else
    call('ZADD', asks, now + next, member)
  end
  waiting = waiting + #joins - served
  local head = format(
    '1 %s %.0f 0 %.0f %.0f %.0f %.0f -1 60000,', stamp_text, now, next, waiting, #joins > 0 and opening or 0, total
  )
  local ones = #ended > 0 and '1' .. string.rep(' 1', #ended - 1) or ''
  local reply = head .. table.concat(granted, ' ') .. ',,' .. ones
  return semaphore_answered(record, asked, number, stamp, waiting, 80000, reply)
end
