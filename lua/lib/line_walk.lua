--[[
  Walks a line from its head and grants waiters of `asker` that fit (nil: grants none). For waiters of other members that fit it reserves
  capacity and notifies the member. It removes the waiters of dead members. It stops at the first waiter that must
  wait, because no other may overtake it; if `has_end`, it continues, but grants nothing more. `line` comes from line_open; its
  table `known` holds, for each visited member, the moment in ms by which the member asks again, or false if the member is dead.
  `capacity` is an object of the user of the line:

    when(ahead, cost, own)    ms until `cost` more units fit behind `ahead` units; 0 now, below 0 never
    grant(cost, own, into)    spends the units now, and appends the facts of the grant for the client to the list `into`
    own_limits                true if a waiter's own text is its limit. Capacity reserved for a waiter then only stays free if no waiter
                              behind it with another limit is granted
    has_end                   true if the capacity ends at some moment, so that waiters far behind may never be served (when() is below 0
                              for them): the walk continues in order to refuse them

  Appends to answer.granted the number of each granted waiter and the facts of grant(), and to answer.refused the number of each waiter that
  can never fit and the result of when(). Lowers answer.next, the ms after which the asker must ask again, and answer.waiting, its
  number of waiters. Sets answer.stopped if the first waiter that must wait belongs to the asker: answer.next then includes its wait.

  If a member that must come now is dead, somebody has to look again when it may be evicted: the asker if it waits, else another process, which is told. A member that is
  evicted is told, too: if it lives (it was stopped, or the server's clock was set forward), it comes back at once.
]]
-- @include line_notify
-- Usually the walk ends early, so we read 4, then 36, then 160 waiters.
local LINE_STRIDES = { 0, 3, 4, 39, 40, 199 }

local function line_walk(line, asker, capacity, answer)
  local now, known = line.now, line.known
  -- Units of the waiters that stay ahead of the one being visited.
  local ahead = 0
  -- The waiters that leave the line (granted, refused or dead), and the sum of their units.
  local leaving, units = {}, 0
  -- True after the first waiter that must wait: no waiter behind it is granted.
  local full = false
  -- The limit of a waiter of another member for which capacity is reserved.
  local kept
  -- The processes of members that must come now, as keys, and the moment when the first of them may be evicted.
  local due, evictable_at = {}, nil

  -- True if the walk stops at this waiter.
  local function visit(id)
    local member, number, cost, own = string.match(id, '^(%S+) (%d+) (%d+) ?(.*)$')
    cost = tonumber(cost) or 0
    local mine = member ~= nil and member == asker
    -- The moment by which the member of this waiter asks again; false if it is dead. The asker itself is alive.
    local asks_by = mine
    if member and not mine then
      asks_by = known[member]
      if asks_by == nil then asks_by = tonumber(redis.call('ZSCORE', line.asks, member) or nil) or false end
      if asks_by and now > asks_by + LINE_GRACE_MS then
        redis.call('ZREM', line.asks, member)
        line_publish(line, member)
        asks_by = false
      end
      known[member] = asks_by
    end
    local wait = asks_by and capacity.when(ahead, cost, own)
    if asks_by and kept and kept ~= own then full = true end
    if asks_by and not mine then
      if wait == 0 and capacity.own_limits then kept = kept or own end
      if not full then line_notify(line, member, math.max(0, wait)) end
      asks_by = known[member]
      if asks_by <= now then
        due[string.match(member, '^(.*)/')] = true
        evictable_at = math.min(evictable_at or math.huge, asks_by + LINE_GRACE_MS + 1)
      end
      if wait >= 0 then ahead = ahead + cost end
      full = full or wait > 0
      return full and not capacity.has_end
    end
    if mine and wait >= 0 and (full or wait > 0) then
      if not full then
        answer.next = math.min(answer.next, wait)
        answer.stopped = true
      end
      ahead = ahead + cost
      full = true
      return not capacity.has_end
    end
    if mine then
      answer.waiting = answer.waiting - 1
      if wait == 0 then
        answer.granted[#answer.granted + 1] = tonumber(number)
        capacity.grant(cost, own, answer.granted)
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
    for i = 1, #LINE_STRIDES, 2 do
      local first, last = LINE_STRIDES[i], LINE_STRIDES[i + 1]
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
    line_tell_watcher(line, asker, due, evictable_at)
  end
  if #leaving > 0 then
    redis.call('ZREM', line.key, unpack(leaving))
    line.units = math.max(0, line.units - units)
    if line.units == 0 then line.fresh = 0 end
    -- Only if a waiter has left the line, another ask at once can change anything.
    if unfinished then answer.next = 0 end
  end
end
