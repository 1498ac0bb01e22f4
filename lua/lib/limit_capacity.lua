--[[
  The capacity (see line_walk and line_ask) of several limits that grant together, all or none. A waiter's `own` text is the quota, the window and the burst of each
  limit as its process knows them: processes with an older configuration may wait in the same line. The facts of a grant are remaining and reset
  of each limit. save() writes the changes. Returns { err } if a key holds a foreign value.

  keys, blocks, notes   for each limit: the key of its state, the ZSET of blocked keys, and the key of its refund note (see refund_note_open)
]]
-- @include open_state
-- @include blocked_until
-- @include expiry
local function limit_capacity(limits, keys, blocks, notes, now, clock)
  local expires_at = expiry(clock, now)
  local count = #limits
  local states, shortest, blocked = {}, math.huge, 0
  for i = 1, count do
    states[i] = open_state(limits[i], keys[i], now, expires_at)
    if states[i].err then return states[i] end
    shortest = math.min(shortest, limits[i].window)
    blocked = math.max(blocked, blocked_until(blocks[i], keys[i]) - now)
  end

  local known = {}
  local function limits_of(own)
    local list = known[own]
    if list then return list end
    list = {}
    local i = 0
    for quota, window, burst in string.gmatch(own, '(%d+) (%d+) (%d+)') do
      i = i + 1
      local limit = limits[i]
      if not limit then break end
      list[i] = { algorithm = limit.algorithm, quota = tonumber(quota), window = tonumber(window), burst = tonumber(burst) }
      -- Only the asker has computed which window it is.
      if limit.algorithm == 'calendar-window' then list[i].window, list[i].burst = limit.window, limit.burst end
    end
    for j = i + 1, count do list[j] = limits[j] end
    known[own] = list
    return list
  end

  local capacity = { now = now, own_limits = true, most = 9007199254740991, late = math.max(50, math.floor(shortest / 10)) }

  capacity.when = function(ahead, cost, own)
    local longest = blocked
    for i, limit in ipairs(limits_of(own)) do
      local wait = states[i].ahead(limit, ahead, cost)
      if wait < 0 then return -1 end
      longest = math.max(longest, wait)
    end
    return longest
  end

  capacity.grant = function(cost, own, into)
    for i, limit in ipairs(limits_of(own)) do
      into[#into + 1], into[#into + 2] = states[i].grant(limit, cost)
    end
  end

  capacity.give_back = function(cost, _, granted_at, facts)
    local next_fact = string.gmatch(facts, '%S+')
    for i = 1, count do
      local remaining, reset = tonumber(next_fact()), tonumber(next_fact())
      states[i].settle(cost, { charged_at = granted_at, cost = cost, remaining = remaining, reset = reset }, notes[i])
    end
  end

  capacity.save = function()
    for i = 1, count do states[i].save() end
  end
  return capacity
end
