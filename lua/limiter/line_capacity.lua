-- What waits in line for limits: when it fits, and what it gets.
local limits = require 'limiter.limits'
local states = require 'limiter.states'
local line_capacity = {}

--[[
  The capacity (see lines.walk and asks.handle) of several limits that grant together, all or none. A waiter's details
  are the quota, the window and the burst of each limit as its process knows them: processes with an older configuration
  may wait in the same line. The facts of a grant are remaining and reset of each limit. save() writes the changes.

  keys, blocks, notes   for each limit: the key of its state, the ZSET of blocked keys, and the key of its note (see
                        notes.open)
]]
function line_capacity.of(list, keys, blocks, notes, now)
  local count = #list
  local opened, shortest, blocked = {}, math.huge, 0
  for i = 1, count do
    opened[i] = states.open(list[i], keys[i], now)
    shortest = math.min(shortest, list[i].window)
    blocked = math.max(blocked, limits.block_end(blocks[i], keys[i]) - now)
  end

  local known = {}
  local function limits_of(details)
    local asked = known[details]
    if asked then return asked end
    asked = {}
    local i = 0
    for quota, window, burst in string.gmatch(details, '(%d+) (%d+) (%d+)') do
      i = i + 1
      local limit = list[i]
      if not limit then break end
      asked[i] = { algorithm = limit.algorithm, quota = tonumber(quota), window = tonumber(window) }
      if limit.algorithm ~= 'fixed_window' then
        asked[i].third = tonumber(burst)
      elseif limit.third then
        -- Only the asker has computed which window of the calendar it is.
        asked[i].window, asked[i].third = limit.window, limit.third
      end
    end
    for j = i + 1, count do asked[j] = list[j] end
    known[details] = asked
    return asked
  end

  local late = math.max(50, math.floor(shortest / 10))
  local capacity = { now = now, own_limits = true, most = 9007199254740991, late = late }

  function capacity.when(ahead, cost, details)
    local longest = blocked
    for i, limit in ipairs(limits_of(details)) do
      local wait = opened[i].ahead(limit, ahead, cost)
      if wait < 0 then return -1 end
      longest = math.max(longest, wait)
    end
    return longest
  end

  function capacity.grant(cost, details, into)
    for i, limit in ipairs(limits_of(details)) do
      into[#into + 1], into[#into + 2] = opened[i].grant(limit, cost)
    end
  end

  function capacity.give_back(cost, _, granted_at, facts)
    local next_fact = string.gmatch(facts, '%S+')
    for i = 1, count do
      local remaining, reset = tonumber(next_fact()), tonumber(next_fact())
      opened[i].settle(cost, { charged_at = granted_at, cost = cost, remaining = remaining, reset = reset }, notes[i])
    end
  end

  function capacity.save()
    for i = 1, count do opened[i].save() end
  end
  return capacity
end

--[[
  Tells the processes of those waiters of a line that fit now: after units came back, or a block ended. Only for a line
  that exists: most keys have none. `line_at`: the place of its three keys in KEYS (see lines.open). `waiting_units`:
  the key of lines.note_units. `channel`: what the channel of every process begins with. Changes nothing of the limits.
]]
function line_capacity.wake(line_at, channel, waiting_units, list, keys, blocks, now)
  local lines = require 'waiting.line.lines'
  local line = lines.open(KEYS[line_at], KEYS[line_at + 1], KEYS[line_at + 2], channel)
  -- A line of another version is reported to those who ask.
  if line.err then return end
  lines.walk(line, nil, line_capacity.of(list, keys, blocks, {}, now), { next = 0 })
  lines.save(line)
  lines.note_units(line, waiting_units, keys)
end

return line_capacity
