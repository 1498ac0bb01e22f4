-- What a process asks of a waiting line: to join, to leave, to be granted.
local lines = require 'waiting.line.lines'
local members = require 'waiting.line.members'
local timely = require 'redis.timely'
local asks = {}

--[[
  The text forms of an ask and of its answer. Both are single texts, because each further part of a command or reply
  costs the server and the client more than splitting a text. asks.CHANGE matches the four words of a change in an ask.
  asks.answer returns the nine numbers of `head` with spaces between them, then the lists `granted`, `refused` and
  `changes`, each after a comma; it modifies the lists.
]]
asks.CHANGE = '([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n'

function asks.numbers(list)
  for i = 1, #list do list[i] = string.format('%.0f', list[i]) end
  return table.concat(list, ' ')
end

function asks.answer(head, granted, refused, changes)
  return table.concat(
    { asks.numbers(head), asks.numbers(granted), asks.numbers(refused), asks.numbers(changes) }, ','
  )
end

--[[
  Handles one ask in a waiting line: the message of a member that joins, leaves or asks for grants. Applies its changes,
  then grants waiters from the head. A member is one identity of a process, which takes another one whenever the server
  does not know the last. ARGV from `first` on:

    member, number of the ask, stamp of the last answer that the member has read ('' for the first ask; stamps are
    tickets: about the server's time in µs) the member that it replaces ('' for none), and the first of its waiters in
    the line, as "number cost details" ('' for none) the changes as one text: four words for each, and a newline after
    each word:
      j  "number cost details" ticket that it brings, or '' timeout in ms, or -1 for none joins the line; 0: takes what
         is free now, or is refused
      l  "number cost details"  ''                             ''                                leaves the line
      r  "number cost details" '' the grant gives back a grant: its waiter has given up, or was granted too late and
         joins again
      any other letter: a change that the user of the line defines, see below
    A grant is its moment in ms and its facts, as the answer told them, with spaces between them. Changes come in this
    order: l, r, those of the user, joins with a ticket, joins without one.
    the last of ARGV: the last moment at which the ask may be carried out, ms by the server's clock

  `record` is the member's key, a HASH: n (number of its last ask; -1: the member is closed), stamp (the last answer's),
  c (its waiters), reply (that answer). It lives for a minute: longer than a process sends an ask. `replaced` is the
  record of the member that this one replaces.

  `capacity` is the object that lines.walk describes, and also has
    now                           the moment of grants, ms
    most, late                    for the answer: the capacity in units, and the age in ms at which a grant is late (-1:
                                  the process judges)
    check                         optional: ms until the next ask at the latest; more than asks.CHECK_MS counts as
                                  asks.CHECK_MS
    give_back(cost, details, at, facts)   gives back what was granted at that moment, with these facts as a text
    change(letter, a, b, c) optional: carries out a change that the user of the line defines, and returns its result, a
    number
    guesses                       true if the moment when units become free is unknown: then when() returns when to look
                                  again
    rejoin(cost, details) optional: takes back what a waiter that brings its ticket was granted in an answer that was
    lost

  An ask that comes again gets the same answer, except for its age and the ms until the next ask, and changes nothing.
  Returns nil if its last moment is over and it was not carried out before: then no copy of it ever is. Returns '0' if
  the member is unknown or closed, has another number or stamp, or if its waiters were lost: its process then opens
  another one. Else the text that asks.answer makes of 1, stamp, moment of the grants in ms, age of the answer in ms, ms
  until the next ask, waiters of the member in the line, ticket of the first newcomer (those after it have the next
  numbers; 0: there is none), most, late, and three lists: granted and refused (see lines.walk), and the results of
  change(). A waiter is also refused, with its wait in ms, if it would wait longer than its timeout (but not where
  `guesses` is true), or if its timeout is 0 and anybody waits.
]]
asks.CHECK_MS = 5000
-- Where nothing tells when units become free, waiters look for themselves: they learn so, too, that the server's clock
-- was set forward, and the line and all that was held have ended with it.
asks.GUESS_MS = 1500

-- The ms until the next ask of the member at the latest, unless the walk has stopped at its first waiter.
function asks.next_ask_ms(line, capacity, first)
  local rank = first ~= '' and redis.call('ZRANK', line.key, first)
  if not rank then return 1000 end
  local cost, details = string.match(first, '^%S+ %d+ (%d+) ?(.*)$')
  -- Usually another walk notifies the member when its waiter may fit. This interval is for the case that members ahead
  -- die; it assumes that all waiters ahead want as many units as this one.
  return math.max(1000, capacity.when(rank * tonumber(cost), tonumber(cost), details))
end

function asks.change(line, member, capacity, answer, joins, letter, waiter, old_ticket, grant_or_timeout)
  if letter ~= 'j' and letter ~= 'l' and letter ~= 'r' then
    answer.changes[#answer.changes + 1] = capacity.change(letter, waiter, old_ticket, grant_or_timeout)
    return
  end
  local id = member .. ' ' .. waiter
  local number, cost, details = string.match(waiter, '^(%d+) (%d+) ?(.*)$')
  cost = tonumber(cost)
  if letter == 'l' then
    local removed = redis.call('ZREM', line.key, id)
    line.units = math.max(0, line.units - removed * cost)
    -- An empty key is deleted, and its lifetime with it: lines.save then sets all lifetimes again.
    if line.units == 0 then line.lifetimes_set_at = 0 end
    answer.waiting = answer.waiting - removed
    return
  end
  if letter == 'r' then
    local granted_at, facts = string.match(grant_or_timeout, '^(%d+) ?(.*)$')
    capacity.give_back(cost, details, tonumber(granted_at), facts)
    return
  end
  local ticket = tonumber(old_ticket)
  if ticket then
    line.last = math.max(line.last, ticket)
    if capacity.rejoin then capacity.rejoin(cost, details) end
  else
    ticket = lines.ticket(line)
    answer.ticket = answer.ticket or ticket
    local timeout = tonumber(grant_or_timeout)
    local wait
    if timeout < 0 and line.units > 0 and not capacity.has_end then
      -- A waiter without a timeout need not know the wait: only whether it ever fits.
      local kind = cost .. ' ' .. details
      wait = answer.wait_alone[kind]
      if wait == nil then
        wait = capacity.when(0, cost, details)
        answer.wait_alone[kind] = wait
      end
    else
      wait = capacity.when(line.units, cost, details)
    end
    local too_late = timeout > 0 and wait > timeout and not capacity.guesses
    if timeout == 0 then too_late = wait > 0 or line.units > 0 end
    if wait < 0 or too_late then
      answer.refused[#answer.refused + 1] = tonumber(number)
      answer.refused[#answer.refused + 1] = wait < 0 and wait or math.max(1, wait)
      return
    end
    if line.units == 0 and wait == 0 then
      answer.granted[#answer.granted + 1] = tonumber(number)
      capacity.grant(cost, details, answer.granted)
      return
    end
  end
  joins[#joins + 1] = string.format('%.0f', ticket)
  joins[#joins + 1] = id
  line.units = line.units + cost
  answer.waiting = answer.waiting + 1
end

-- Puts waiters into the line: a list of tickets and ids.
function asks.enter(line, joins)
  if #joins == 0 then return end
  -- If other keys of the line were lost, the rest would be misread.
  if not line.stored then redis.call('DEL', line.key, line.asks) end
  line.stored = true
  redis.call('ZADD', line.key, unpack(joins))
end

-- Also true if units are counted for an empty line: a walk corrects that.
function asks.head_is_dead(line)
  if line.units == 0 then return false end
  local head = redis.call('ZRANGE', line.key, '0', '0')[1]
  local asks_by = head and redis.call('ZSCORE', line.asks, string.match(head, '^%S+'))
  return members.is_dead(line, tonumber(asks_by or nil))
end

function asks.handle(line, record, replaced, first, capacity)
  local member, number, stamp = ARGV[first], tonumber(ARGV[first + 1]), ARGV[first + 2]
  local replaces, first_waiter = ARGV[first + 3], ARGV[first + 4]
  local now = line.now
  local stored = redis.call('HMGET', record, 'n', 'stamp', 'c', 'reply')
  local last_number, waiting = tonumber(stored[1]), tonumber(stored[3]) or 0
  if last_number == number then
    local start, next, rest = string.match(stored[4], '^(%S+ %S+ %S+) %S+ (%S+)(.*)$')
    local asks_by = tonumber(redis.call('ZSCORE', line.asks, member) or nil)
    local age = math.max(0, math.floor((line.micros - tonumber(stored[2])) / 1000))
    return start .. ' ' .. asks.numbers({ age, asks_by and math.max(0, asks_by - now) or next }) .. rest
  end
  if timely.is_late(now) then return nil end
  if number == 1 then
    if last_number then return '0' end
  elseif last_number ~= number - 1 or stored[2] ~= stamp then
    return '0'
  end
  -- The record says that the member has waiters. If a walk took it for dead, or keys were lost (and perhaps created
  -- again by others), they are not in the line.
  if waiting > 0 then
    local in_line = line.stored and redis.call('ZSCORE', line.asks, member)
    if in_line and first_waiter ~= '' then
      in_line = redis.call('ZSCORE', line.key, member .. ' ' .. first_waiter)
    elseif in_line then
      in_line = redis.call('EXISTS', line.key) == 1
    end
    if not in_line then return '0' end
  end
  if number == 1 and replaces ~= '' then
    -- An ask of the replaced member that is still in flight finds it closed. Its waiters count as dead, and the next
    -- walk removes them.
    members.remove(line, replaces)
    redis.call('DEL', replaced)
    redis.call('HSET', replaced, 'n', '-1')
    redis.call('PEXPIRE', replaced, lines.LIFE_MS)
  end

  local answer = {
    granted = {},
    refused = {},
    changes = {},
    wait_alone = {},
    waiting = waiting,
    next = math.min(capacity.check or asks.CHECK_MS, capacity.guesses and asks.GUESS_MS or asks.CHECK_MS),
  }
  local joins = {}
  local has_newcomers = false
  for letter, waiter, old_ticket, grant_or_timeout in string.gmatch(ARGV[first + 5], asks.CHANGE) do
    if letter == 'j' and old_ticket == '' and not has_newcomers then
      has_newcomers = true
      -- Those that leave are gone by now, and those that bring their tickets are back in their places, so that no walk
      -- passes over them. If the head's member is dead, its waiters go before newcomers are measured behind them.
      asks.enter(line, joins)
      joins = {}
      if asks.head_is_dead(line) then lines.walk(line, member, capacity, answer) end
    end
    asks.change(line, member, capacity, answer, joins, letter, waiter, old_ticket, grant_or_timeout)
    if first_waiter == '' and joins[2] then first_waiter = string.sub(joins[2], #member + 2) end
  end
  asks.enter(line, joins)
  if line.units > 0 then lines.walk(line, member, capacity, answer) end
  if answer.waiting > 0 then
    if not answer.asker_waits_first and answer.next > 0 then
      local first_id = first_waiter == '' and '' or member .. ' ' .. first_waiter
      answer.next = math.min(answer.next, asks.next_ask_ms(line, capacity, first_id))
    end
    members.will_ask(line, member, answer.next)
  elseif waiting > 0 then
    members.remove(line, member)
  end
  local stamped = lines.ticket(line)
  local head = {
    1, stamped, capacity.now, 0, answer.next, answer.waiting, answer.ticket or 0, capacity.most, capacity.late,
  }
  local reply = asks.answer(head, answer.granted, answer.refused, answer.changes)
  redis.call(
    'HSET', record, 'n', number, 'stamp', string.format('%.0f', stamped), 'c', answer.waiting, 'reply', reply
  )
  redis.call('PEXPIRE', record, lines.LIFE_MS)
  lines.save(line)
  return reply
end

return asks
