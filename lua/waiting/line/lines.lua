-- Waiting lines: who waits, in which order, and whom to tell.
local members = require 'waiting.line.members'
local lines = {}

--[[
  Opens a waiting line. Its clock is the server's, also if a test passes a clock: whether a process lives is a matter of
  real time. Its keys, which live for a minute after the last ask:

    line   ZSET waiter → ticket. A waiter is "member number cost details": its number within the member, its units, and
           data that only the user of the line reads
    asks   see members.of. A member that is not in it has no waiters any more
    meta   HASH v (version of this state), last (newest ticket), units (sum of all costs in the line), fresh (when the
           lifetimes were set)

  Tickets rise: each is the server's time in µs, or one more than the last. A member that was evicted and lives joins
  again with its tickets. Returns { err } for a line of another version.
]]
lines.VERSION = '1'

function lines.open(key, asks, meta, channel)
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local stored = redis.call('HMGET', meta, 'v', 'last', 'units', 'fresh')
  if stored[1] and stored[1] ~= lines.VERSION then
    return {
      err = 'ERR the waiting line has version ' .. stored[1] .. ', this process expects version ' .. lines.VERSION
        .. ': let all processes that share it run one version of spillway',
    }
  end
  local line = members.of(asks, channel, math.floor(micros / 1000))
  line.key, line.meta, line.micros, line.stored = key, meta, micros, stored[1] ~= false
  line.last, line.units = tonumber(stored[2]) or 0, tonumber(stored[3]) or 0
  line.lifetimes_set_at = tonumber(stored[4]) or 0
  return line
end

--[[ Returns the next ticket of a line. It is greater than every earlier one, even if the keys of the line were lost. ]]
function lines.ticket(line)
  line.last = math.max(line.last + 1, line.micros)
  return line.last
end

--[[ Whether a line has a waiter whose process seems to be alive. ]]
function lines.is_alive(line)
  if line.units == 0 then return false end
  local last = redis.call('ZRANGE', line.asks, '-1', '-1', 'WITHSCORES')[2]
  return not members.is_dead(line, tonumber(last))
end

--[[
  Returns the number of waiters, 0 if no process with waiters seems to be alive; and for how long the first has waited,
  in ms.
]]
function lines.waiting(line)
  if not lines.is_alive(line) then return 0, 0 end
  local first = redis.call('ZRANGE', line.key, '0', '0', 'WITHSCORES')[2]
  return redis.call('ZCARD', line.key), first and math.max(0, math.floor((line.micros - first) / 1000)) or 0
end

--[[ Writes the changes of a line, and sets the lifetimes of its keys. A line without waiters leaves nothing behind. ]]
lines.LIFE_MS = 60000

function lines.save(line)
  if line.units == 0 then
    if line.stored then redis.call('DEL', line.meta, line.asks, line.key) end
    return
  end
  local text = string.format('%.0f', line.last)
  -- Lifetimes are renewed every few seconds only: the commands for it would cost as much as a walk.
  local stale = line.now < line.lifetimes_set_at or line.now - line.lifetimes_set_at >= lines.LIFE_MS / 6
  if stale then line.lifetimes_set_at = line.now end
  local set_at = string.format('%.0f', line.lifetimes_set_at)
  redis.call('HSET', line.meta, 'v', lines.VERSION, 'last', text, 'units', line.units, 'fresh', set_at)
  if not stale then return end
  redis.call('PEXPIRE', line.key, lines.LIFE_MS)
  redis.call('PEXPIRE', line.asks, lines.LIFE_MS)
  redis.call('PEXPIRE', line.meta, lines.LIFE_MS)
end

--[[
  Tells a process to look again at `moment`, when members that must come now may be evicted: so a dead one costs those
  behind it a second, and not the time until they ask anyway. `told` has the processes that must come, as keys; it is
  modified. `asker` is not told, because it does not wait.

  The process that has asked last is the likeliest to live. Its channel has no listener if it is dead, or listens on
  another node of a cluster: then the next one is told, too, up to lines.MOST_WATCHERS.
]]
lines.MOST_WATCHERS = 5

function lines.tell_watcher(line, asker, told, moment)
  local count = 0
  local latest = redis.call('ZRANGE', line.asks, '0', '15', 'REV', 'WITHSCORES')
  for i = 1, #latest, 2 do
    local member, by = latest[i], tonumber(latest[i + 1])
    if by <= moment or count == lines.MOST_WATCHERS then return end
    local process = string.match(member, '^(.*)/')
    if member ~= asker and not told[process] then
      told[process] = true
      count = count + 1
      line.asks_by[member] = by
      if members.notify(line, member, moment - line.now) then return end
    end
  end
end

--[[ Tells up to 200 members of a line to ask, after a change that affects more waiters than a walk visits. ]]
function lines.notify_all(line)
  if line.units == 0 then return end
  for _, member in ipairs(redis.call('ZRANGE', line.asks, '0', '199')) do members.tell(line.channel, member, '') end
end

--[[
  Walks a line from its head and grants waiters of `asker` that fit (nil: grants none). For waiters of other members
  that fit it reserves capacity and notifies the member. It removes the waiters of dead members. It stops at the first
  waiter that must wait, because no other may overtake it; if `has_end`, it continues, but grants nothing more. `line`
  comes from lines.open. `capacity` is an object of the user of the line:

    when(ahead, cost, details)    ms until `cost` more units fit behind `ahead` units; 0 now, below 0 never
    grant(cost, details, into) spends the units now, and appends the facts of the grant for the client to the list
    `into`
    own_limits                true if a waiter's details are its limit. Capacity reserved for a waiter then only stays
                              free if no waiter behind it with another limit is granted
    has_end                   true if the capacity ends at some moment, so that waiters far behind may never be served
                              (when() is below 0 for them): the walk continues in order to refuse them

  Appends to answer.granted the number of each granted waiter and the facts of grant(), and to answer.refused the number
  of each waiter that can never fit and the result of when(). Lowers answer.next, the ms after which the asker must ask
  again, and answer.waiting, its number of waiters. Sets answer.asker_waits_first if the first waiter that must wait
  belongs to the asker: answer.next then includes its wait.

  If a member that must come now is dead, somebody has to look again when it may be evicted: the asker if it waits, else
  another process, which is told.
]]
-- Usually the walk ends early, so we read 8, then 32, then 160 waiters.
lines.STRIDES = { 0, 7, 8, 39, 40, 199 }

function lines.walk(line, asker, capacity, answer)
  local now = line.now
  -- Units of the waiters that stay ahead of the one being visited.
  local ahead = 0
  -- The waiters that leave the line (granted, refused or dead), and the sum of their units.
  local leaving, units = {}, 0
  -- True after the first waiter that must wait: no waiter behind it is granted.
  local full = false
  -- The limit of a waiter of another member for which capacity is reserved.
  local reserved_details
  -- The processes of members that must come now, as keys, and the moment when the first of them may be evicted.
  local due, evictable_at = {}, nil

  -- True if the walk stops at this waiter.
  local function visit(id)
    local member, number, cost, details = string.match(id, '^(%S+) (%d+) (%d+) ?(.*)$')
    cost = tonumber(cost) or 0
    local mine = member ~= nil and member == asker
    -- The moment by which the member of this waiter asks again; false if it is dead. The asker itself is alive.
    local asks_by = mine
    if member and not mine then asks_by = members.asks_by(line, member) end
    local wait = asks_by and capacity.when(ahead, cost, details)
    if asks_by and reserved_details and reserved_details ~= details then full = true end
    if asks_by and not mine then
      if wait == 0 and capacity.own_limits then reserved_details = reserved_details or details end
      if not full then members.notify(line, member, math.max(0, wait)) end
      asks_by = line.asks_by[member]
      if asks_by <= now then
        due[string.match(member, '^(.*)/')] = true
        evictable_at = math.min(evictable_at or math.huge, members.evictable_at(asks_by))
      end
      if wait >= 0 then ahead = ahead + cost end
      full = full or wait > 0
      return full and not capacity.has_end
    end
    if mine and wait >= 0 and (full or wait > 0) then
      if not full then
        answer.next = math.min(answer.next, wait)
        answer.asker_waits_first = true
      end
      ahead = ahead + cost
      full = true
      return not capacity.has_end
    end
    if mine then
      answer.waiting = answer.waiting - 1
      if wait == 0 then
        answer.granted[#answer.granted + 1] = tonumber(number)
        capacity.grant(cost, details, answer.granted)
      else
        answer.refused[#answer.refused + 1] = tonumber(number)
        answer.refused[#answer.refused + 1] = wait
      end
    end
    leaving[#leaving + 1] = id
    units = units + cost
    return false
  end

  local function walk()
    for i = 1, #lines.STRIDES, 2 do
      local first, last = lines.STRIDES[i], lines.STRIDES[i + 1]
      local ids = redis.call('ZRANGE', line.key, first, last)
      for _, id in ipairs(ids) do
        if visit(id) then return false end
      end
      if #ids <= last - first then
        -- A line without waiters has no units: reset the sum in case keys were lost.
        if first == 0 and #ids == 0 then line.units = 0 end
        return false
      end
    end
    return true
  end

  local unfinished = walk()
  if evictable_at and asker and answer.waiting > 0 then
    answer.next = math.min(answer.next, evictable_at - now)
  elseif evictable_at then
    lines.tell_watcher(line, asker, due, evictable_at)
  end
  if #leaving > 0 then
    redis.call('ZREM', line.key, unpack(leaving))
    line.units = math.max(0, line.units - units)
    if line.units == 0 then line.lifetimes_set_at = 0 end
    -- Only if a waiter has left the line, another ask at once can change anything.
    if unfinished then answer.next = 0 end
  end
end

--[[
  Records in `waiting_units`, a ZSET of all lines under one policy, how many units wait in a line and until when its
  processes count as alive. So the decision of a new request needs no key of the line. The name of a line is the keys of
  its limits' `states`; its score is that moment in ms. The units are the negative score of the member "name units".
]]
function lines.note_units(line, waiting_units, states)
  local name = table.concat(states, ' ')
  if line.units == 0 then
    redis.call('ZREM', waiting_units, name, name .. ' units')
    return
  end
  local last = redis.call('ZRANGE', line.asks, '-1', '-1', 'WITHSCORES')[2]
  local ends_at = string.format('%.0f', (tonumber(last) or line.now) + members.GRACE_MS)
  redis.call('ZADD', waiting_units, ends_at, name, string.format('%.0f', -line.units), name .. ' units')
  -- Lines whose processes died without leaving; a few at a time, so that no call is long.
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', waiting_units, '0', line.now, 'LIMIT', '0', '16')) do
    redis.call('ZREM', waiting_units, dead, dead .. ' units')
  end
  redis.call('PEXPIRE', waiting_units, lines.LIFE_MS)
end

return lines
