--[[
  Walks a line from its head and grants what fits, but only to waiters of `asker` (nil: to nobody). It keeps capacity for waiters of other
  members that fit, notifies those members, and drops the waiters of members that have gone. It stops at the first waiter that does not
  fit. `capacity` is an object of the user of the line:

    when(ahead, cost, own)    ms until `cost` more units fit behind `ahead` units; 0 now, below 0 never
    grant(cost, own, into)    spends it now, and adds to the list `into` what the client must know of it
    ends                      true if when() may be below 0 because of what is ahead: then the walk goes on to find such waiters

  Adds to answer.granted the number of each granted waiter, followed by what grant() adds; to answer.refused the number of each waiter that
  can never fit, followed by what when() says. Lowers answer.next, the ms after which the asker has to ask again, and answer.waiting, its
  waiters.
]]
-- @include line_notify
-- Mostly the first waiter does not fit, so few are read at first; 200 in all.
local LINE_STRIDES = { 0, 3, 4, 39, 40, 199 }

local function line_walk(line, asker, capacity, answer)
  local now, known = line.now, line.known
  local ahead, gone, units, past = 0, {}, 0, false

  -- True if the walk stops at this waiter.
  local function visit(id)
    local member, number, cost, own = string.match(id, '^(%S+) (%d+) (%d+) ?(.*)$')
    cost = tonumber(cost) or 0
    local mine = member ~= nil and member == asker
    local by = mine
    if member and not mine then
      by = known[member]
      if by == nil then by = tonumber(redis.call('ZSCORE', line.asks, member) or nil) or false end
      if by and now > by + LINE_GRACE_MS then
        redis.call('ZREM', line.asks, member)
        by = false
      end
      known[member] = by
      if by and by <= now then answer.next = math.min(answer.next, by + LINE_GRACE_MS + 1 - now) end
    end
    local wait = by and capacity.when(ahead, cost, own)
    if by and not mine then
      if not past then line_notify(line, member, math.max(0, wait)) end
      if wait >= 0 then ahead = ahead + cost end
      past = past or wait > 0
      return past and not capacity.ends
    end
    if mine and wait >= 0 and (past or wait > 0) then
      if not past then
        answer.next = math.min(answer.next, wait)
        answer.stopped = true
      end
      ahead = ahead + cost
      past = true
      return not capacity.ends
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
    gone[#gone + 1] = id
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
        -- A line without waiters has no units: here the sum mends itself, should keys have been lost.
        if first == 0 and #ids == 0 then line.units = 0 end
        return false
      end
    end
    return true
  end

  local unfinished = walk()
  if #gone > 0 then
    redis.call('ZREM', line.key, unpack(gone))
    line.units = math.max(0, line.units - units)
    -- Without progress the same walk would find the same waiters.
    if unfinished then answer.next = 0 end
  end
end
