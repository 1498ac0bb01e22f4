--[[
  A fast path for the most common ask of a process whose waiters are at the head of the line: it ends leases or adds waiters, and its first waiters get the
  free permits. It does the same as semaphore_open, line_ask and semaphore_save with a third of the commands, but only if the first waiter that remains
  must wait and belongs to the asker, too. For any other ask it returns nil and writes nothing.

  Between two asks the server is idle and its processor caches grow cold. Each command, pattern match and number formatting then costs several times as much
  as in a benchmark that runs the script in a loop, so this code uses as few as possible.

  `stored` and `member_fields` are the fields of the semaphore and of the member's record that semaphore_ask has read. `floor` is the newest token
  that the caller has seen. Not used with a given clock (of a test), or if the semaphore has a lifetime. For facts (permits, member, token) see semaphore_read.
]]
local function semaphore_hand_over(stored, member_fields, member, number, floor)
  local call, match, find, sub, format = redis.call, string.match, string.find, string.sub, string.format
  local leases, facts, line, asks, meta, record = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[8]
  local total, waiting = tonumber(stored[1]), tonumber(member_fields[3]) or 0
  local first_waiter, prefix = ARGV[10], member .. ' '
  if first_waiter == '' then return nil end
  local kept = call('ZMSCORE', leases, '!extra', '!last')
  -- While permits are taken directly, the key has another name.
  local last_token, extra = tonumber(kept[2] or nil), -1 - (tonumber(kept[1] or nil) or -1)
  local extra_before = extra
  if not last_token then return nil end

  -- The content of the ask: waiters, and leases without and with a fact.
  local joins, ended_without_fact, ended_with_fact, tokens, known = {}, {}, {}, {}, {}
  for letter, id, third, most in string.gmatch(ARGV[11], LINE_CHANGE) do
    if letter == 'e' and not known[id] then
      known[id] = true
      if third == '' then
        ended_without_fact[#ended_without_fact + 1] = id
      else
        ended_with_fact[#ended_with_fact + 1] = id
        tokens[#tokens + 1] = third
      end
    elseif letter == 'j' and third == '' and most ~= '0' then
      joins[#joins + 1] = id
    else
      return nil
    end
  end
  local ends = #ended_without_fact + #ended_with_fact
  -- Listing a few leases is cheaper than looking each of them up; otherwise only the first is listed, for its deadline.
  local lists = #ended_without_fact > 0
  local listed = call('ZRANGEBYSCORE', leases, '0', SEMAPHORE_ABOVE, 'WITHSCORES', 'LIMIT', '0', lists and 33 or 1)
  lists = lists and #listed < 66
  -- None of them has ended, or else this is left to the general code.
  local used = (lists and #listed / 2 or call('ZCOUNT', leases, '0', SEMAPHORE_ABOVE)) + extra
  if #ended_without_fact > 0 then
    local found = 0
    if lists then
      for i = 1, #listed, 2 do
        if known[listed[i]] then found = found + 1 end
      end
      if found < ends then return nil end
    else
      local deadlines = call('ZMSCORE', leases, unpack(ended_without_fact))
      for i = 1, #ended_without_fact do
        if not deadlines[i] then return nil end
      end
    end
    used = used - #ended_without_fact
  end
  if #ended_with_fact > 0 then
    local held = call('HMGET', facts, unpack(ended_with_fact))
    for i = 1, #ended_with_fact do
      local permits, token = match(held[i] or '', '^(%d+) %S+ (%d+)$')
      if token ~= tokens[i] then return nil end
      used = used - permits
      extra = extra - permits + 1
    end
  end

  -- The state of the line and the leases.
  local time = call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local now = math.floor(micros / 1000)
  local line_fields = call('HMGET', meta, 'v', 'last', 'units', 'fresh')
  local asks_by = tonumber(call('ZSCORE', asks, member) or nil)
  local first_deadline = tonumber(listed[2])
  local last_ticket, units, age = tonumber(line_fields[2]), tonumber(line_fields[3]), now - (tonumber(line_fields[4]) or 0)
  if line_fields[1] ~= '1' or not last_ticket or not units or not asks_by or not first_deadline then return nil end
  -- After ten seconds line_save must set the lifetimes of the line again.
  if first_deadline <= now or age < 0 or age >= 10000 then return nil end

  local is_kept = semaphore_is_kept(last_token, micros)

  -- The waiters to serve.
  local free = total - used
  if free < 0 or free > 100 then return nil end
  local ids = call('ZRANGE', line, '0', free)
  if ids[1] ~= prefix .. first_waiter then return nil end
  local granted, served, deadlines, facts_to_write, latest = {}, 0, {}, {}, 0
  local start = math.max(floor, last_token)
  local token = start
  -- A waiter is "member number permits ms name". Most want as many permits for as long as the one before: that part, the wish, is read once.
  local number_start, wish, tail_length, name_length = #prefix + 1, nil, 0, 0
  local units_of, deadline, deadline_text
  for i = 1, #ids do
    local id = ids[i]
    if find(id, prefix, 1, true) ~= 1 then return nil end
    local waiter, name, is_new
    if wish and sub(id, -tail_length, -name_length - 1) == wish then
      waiter, name = sub(id, number_start, -tail_length - 1), sub(id, -name_length)
    else
      waiter, wish, name = match(id, '^(%d+)( %d+ %d+ )(%S+)$', number_start)
      if not waiter then return nil end
      tail_length, name_length = #wish + #name, #name
      local cost, ms = match(wish, '(%d+) (%d+)')
      units_of, deadline = tonumber(cost), now + ms
      is_new = true
    end
    if units_of > total then return nil end
    if units_of > free then break end
    if is_new then
      deadline_text = format('%.0f', deadline)
      if deadline < first_deadline then first_deadline = deadline end
      if deadline > latest then latest = deadline end
    end
    free = free - units_of
    extra = extra + units_of - 1
    local next_token = token < micros and micros or token + 1
    served = i
    local three = 3 * i
    granted[three - 2] = waiter
    -- '+' and '=': see line_answer.
    granted[three - 1] = i > 1 and next_token == token + 1 and '+' or format('%.0f', next_token)
    granted[three] = i > 1 and not is_new and '=' or deadline_text
    token = next_token
    deadlines[2 * i - 1], deadlines[2 * i] = deadline_text, name
    if sub(name, 1, 1) ~= '~' then
      facts_to_write[#facts_to_write + 1] = name
      facts_to_write[#facts_to_write + 1] = units_of .. ' ' .. prefix .. format('%.0f', token)
    end
  end
  -- No earlier waiter is left: the joining ones may be served.
  if served == #ids then return nil end
  last_token = math.max(start, token)
  units = units - (total - used - free)
  used = total - free

  -- Joining waiters come last.
  local first_new_ticket = math.max(last_ticket + 1, micros)
  local places = {}
  for i = 1, #joins do
    local tail = joins[i]
    local cost = tonumber(match(tail, '^%d+ (%d+) '))
    if not cost or cost > total then return nil end
    units = units + cost
    last_ticket = first_new_ticket + i - 1
    places[2 * i - 1] = last_ticket
    places[2 * i] = prefix .. tail
  end
  local stamp = math.max(last_ticket + 1, micros)
  local stamp_text = format('%.0f', stamp)

  -- Every 20 s, and in the first such ask after one that took the general way: whatever is granted now, the next one may grant leases without a fact.
  if semaphore_is_stale(member_fields, stamp, 80000) then semaphore_note_holder(leases, member, micros) end
  if #ended_without_fact > 0 then call('ZREM', leases, unpack(ended_without_fact)) end
  if served > 0 then
    call('ZREMRANGEBYRANK', line, '0', served - 1)
    deadlines[#deadlines + 1] = format('%.0f', last_token)
    deadlines[#deadlines + 1] = '!last'
    call('ZADD', leases, unpack(deadlines))
    if #facts_to_write > 0 then call('HSET', facts, unpack(facts_to_write)) end
  end
  if #ended_with_fact > 0 then
    call('ZREM', leases, unpack(ended_with_fact))
    call('HDEL', facts, unpack(ended_with_fact))
  end
  if #joins > 0 then call('ZADD', line, unpack(places)) end
  if extra ~= extra_before then call('ZADD', leases, format('%.0f', -1 - extra), '!extra') end
  if #facts_to_write > 0 or latest - now > 60000 or served > 0 and not is_kept then
    semaphore_keep(leases, facts, last_token, micros, (latest + 1000) * 1000)
  end
  call('HSET', meta, 'last', stamp_text, 'units', units)
  -- If the stored time of the next ask is close enough, it need not be written.
  local next = math.max(1, math.min(5000, first_deadline - now))
  if asks_by <= now + next and asks_by > now + next - 1000 and asks_by > now then
    next = asks_by - now
  else
    call('ZADD', asks, now + next, member)
  end
  waiting = waiting + #joins - served
  local ticket_text = #joins > 0 and format('%.0f', first_new_ticket) or '0'
  local start_of_reply = '1 ' .. stamp_text .. ' ' .. now .. ' 0 ' .. next .. ' ' .. waiting .. ' ' .. ticket_text .. ' ' .. stored[1] .. ' -1 60000,'
  local end_results = ends > 0 and '1' .. string.rep(' 1', ends - 1) or ''
  local reply = start_of_reply .. table.concat(granted, ' ') .. ',,' .. end_results
  return semaphore_answered(record, member_fields, number, stamp, waiting, 80000, reply)
end

--[[
  semaphore_is_stale returns whether the record of a member needs a new lifetime. semaphore_answered stores the answer to ask `number` in the record of a
  member, as line_ask does, with `count`, the number of its waiters. The record then lives for at least three quarters of `kept` ms: setting the lifetime
  each time would cost as much as a lease. `stamp` is the stamp of the answer as a number, `member_fields` the fields of the record that semaphore_ask has read.
  Returns the answer.
]]
local function semaphore_is_stale(member_fields, stamp, kept)
  return math.abs(stamp - (tonumber(member_fields[4]) or 0)) > kept * 250
end

local function semaphore_answered(record, member_fields, number, stamp, count, kept, reply)
  local format = string.format
  local stale = semaphore_is_stale(member_fields, stamp, kept)
  local stamp_text = format('%.0f', stamp)
  redis.call('HSET', record, 'n', number, 'stamp', stamp_text, 'c', count, 'reply', reply, 'fresh', stale and stamp_text or member_fields[4])
  if stale then redis.call('PEXPIRE', record, kept) end
  return reply
end
