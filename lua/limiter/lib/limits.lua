-- Limits of any algorithm: how they are read, what can be done with their states, and what waits or blocks in front of
-- them.

--[[
  Reads the limits in ARGV from `first` on, four numbers or names each. Returns the list and the index after it. For a
  calendar window (algorithm calendar-window), burst is the start of the window.
]]
local function read_limits(first, count, now)
  local limits = {}
  for i = 1, count do
    local algorithm, window, burst = ARGV[first], tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3])
    if algorithm == 'calendar-window' then
      check_calendar_window(now, burst, window)
    end
    limits[i] = { algorithm = algorithm, quota = tonumber(ARGV[first + 1]), window = window, burst = burst }
    first = first + 4
  end
  return limits, first
end

--[[ Reads what a decision spent under each limit from ARGV, from `first` on, four numbers each: charged at, cost,
remaining, reset. ]]
local function read_receipts(first, count)
  local receipts = {}
  for i = 1, count do
    receipts[i] = {
      charged_at = tonumber(ARGV[first]),
      cost = tonumber(ARGV[first + 1]),
      remaining = tonumber(ARGV[first + 2]),
      reset = tonumber(ARGV[first + 3]),
    }
    first = first + 4
  end
  return receipts
end

--[[
  The operations of an algorithm on the state of a key, as a table of functions. The table is created on first use,
  because each call of a script creates its functions anew, which costs as much as their work.

  lua/limiter/algorithms has a file for each algorithm, named after it, of these pieces, which are inlined:
    traits     sets what is not as usual: has_burst = true, if its limits have a third number; shaped = true, if
               admitted requests may have to wait; has_log = true, if the state is a log and no row
    measure    for a row: the code that decides. It reads quota, window, burst, now, cost, at (nil: never used), x and
               y, and sets retry (0 allowed, -1 never), remaining, reset, delay and the next at, x and y. Not a
               function, because a call would double its cost. The build makes a script of consume_row with it.
    functions  sets `functions`. Of a row, given limit, now, …, at, x, y:
      notes_resets                        whether a reset must be recorded for settlements, because the state does not
                                          tell charges after it from charges before it
      scaled(level, from, to) of a bucket: the level that is the same share of another capacity (see
      lua/limiter/lib/bucket.lua)
      measure(limit, now, cost, …)        the piece as a function: `-- @inline rows.measure_function`
      charge(limit, now, cost, …)         at, x and y after a cost that may not fit (a debt)
      refund(limit, now, cost, …, note) at, x and y after at most `cost` units were given back, newest first. Records in
      `note` what a
                                          later settle must know.
      settle(limit, now, units, receipt, …, note) at, x and y without at most `units` of one decision's own units, and
      without
                                          any whose owner is in doubt
      ahead(limit, now, ahead, cost, …, waits) when a cost fits behind `ahead` units, in ms: 0 now, -1 never. Units
      above what
                                          fits at once take whole windows. Never later than the true moment. `waits`:
                                          the request waits in line
      room(limit, now, ttl, …)            how many units may be sold as a lease of ttl ms, and how many ms it lasts
      raised(limit, now, ttl, …)          at, x and y from which the units of a lease are charged
      returnable(limit, units, age) how many of the returned units of a lease that was sold `age` ms ago become free
      notes_leases                        whether the end of the newest lease must be recorded for settlements
    An algorithm whose state is a log has open_state instead, which returns the same object as row_state; and for
    decisions open_log, insert, rebase, measure and ahead, the functions of log.lua with `log_` before these names
    (measure: sliding_window).
]]
local known_functions = false
local function functions_of(algorithm)
  known_functions = known_functions or {}
  local functions = known_functions[algorithm]
  if not functions then
    -- @choose functions
    known_functions[algorithm] = functions
  end
  return functions
end

--[[ Opens the state of a key under one limit, whatever its algorithm: returns what row_state returns. `read_only`: see
row_state and log_open. ]]
local function open_state(limit, key, now, expires_at, read_only)
  local functions = functions_of(limit.algorithm)
  return (functions.open_state or row_state)(limit, key, now, expires_at, functions, read_only)
end

--[[ The end of a member's block, ms; 0 if it is not blocked. ]]
local function block_end(list, member)
  return tonumber(redis.call('ZSCORE', list, member) or 0)
end

--[[
  floor(a / b), exact for whole 0 <= a <= 2^53, 0 < b: a float quotient may round up to a whole number that it does not
  reach, so the result is checked by multiplication.
]]
local function floor_div(a, b)
  local quotient = math.floor(a / b)
  if quotient * b > a then return quotient - 1 end
  return quotient
end

--[[ ceil(a / b), exact for whole 0 <= a <= 2^53, 0 < b. ]]
local function ceil_div(a, b)
  local quotient = floor_div(a, b)
  if quotient * b < a then return quotient + 1 end
  return quotient
end

--[[ For a cost behind `ahead` units that takes several windows: returns the units that fall into the last of them, and
the ms until it begins; nil if it never fits. ]]
local function whole_windows(limit, ahead, cost)
  if cost > limit.quota then return nil end
  local units = ahead + cost
  local windows = floor_div(units - 1, limit.quota)
  return units - windows * limit.quota, windows * limit.window
end

--[[
  The capacity (see line_walk and line_ask) of several limits that grant together, all or none. A waiter's details are
  the quota, the window and the burst of each limit as its process knows them: processes with an older configuration may
  wait in the same line. The facts of a grant are remaining and reset of each limit. save() writes the changes. Returns
  { err } if a key holds a foreign value.

  keys, blocks, notes   for each limit: the key of its state, the ZSET of blocked keys, and the key of its refund note
                        (see refund_note_open)
]]
local function limit_capacity(limits, keys, blocks, notes, now, clock)
  local expires_at = expiry(clock, now)
  local count = #limits
  local states, shortest, blocked = {}, math.huge, 0
  for i = 1, count do
    states[i] = open_state(limits[i], keys[i], now, expires_at)
    if states[i].err then return states[i] end
    shortest = math.min(shortest, limits[i].window)
    blocked = math.max(blocked, block_end(blocks[i], keys[i]) - now)
  end

  local known = {}
  local function limits_of(details)
    local list = known[details]
    if list then return list end
    list = {}
    local i = 0
    for quota, window, burst in string.gmatch(details, '(%d+) (%d+) (%d+)') do
      i = i + 1
      local limit = limits[i]
      if not limit then break end
      list[i] = { algorithm = limit.algorithm, quota = tonumber(quota), window = tonumber(window), burst = tonumber(burst) }
      -- Only the asker has computed which window it is.
      if limit.algorithm == 'calendar-window' then list[i].window, list[i].burst = limit.window, limit.burst end
    end
    for j = i + 1, count do list[j] = limits[j] end
    known[details] = list
    return list
  end

  local capacity = { now = now, own_limits = true, most = 9007199254740991, late = math.max(50, math.floor(shortest / 10)) }

  capacity.when = function(ahead, cost, details)
    local longest = blocked
    for i, limit in ipairs(limits_of(details)) do
      local wait = states[i].ahead(limit, ahead, cost)
      if wait < 0 then return -1 end
      longest = math.max(longest, wait)
    end
    return longest
  end

  capacity.grant = function(cost, details, into)
    for i, limit in ipairs(limits_of(details)) do
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

--[[
  Tells the processes of those waiters of a line that fit now: after units came back, or a block ended. Only for a line
  that exists: most keys have none. `line_at`: the place of its three keys in KEYS (see line_open). `waiting_units`: the
  key of line_note_units. `channel`: what the channel of every process begins with. Changes nothing of the limits.
]]
local function wake_waiters(line_at, channel, waiting_units, limits, keys, blocks, now, clock)
  local line = line_open(KEYS[line_at], KEYS[line_at + 1], KEYS[line_at + 2], channel)
  local capacity = not line.err and limit_capacity(limits, keys, blocks, {}, now, clock)
  -- A line of another version, or a key that another program has changed, is reported to those who ask.
  if not capacity or capacity.err then return end
  line_walk(line, nil, capacity, { next = 0 })
  line_save(line)
  line_note_units(line, waiting_units, keys)
end

--[[
  Counts denials of a key that is not blocked, and tells whether they block it: src/limiter/block-rule.ts is the same in
  the process.

  count        denials; age: of the oldest of them, ms
  rule         after, window, for_ms, factor, max_ms, forget_ms: see BlockRule
  denials_key  counts denials since the last block, within a window
  blocks_key   counts blocks; its window begins anew with each, so that the age of the window is the age of the last
               block

  Returns the text of an error, if a key holds something else; else nil, and
    the length of the block that begins, ms; 0 if none does
    the denials left before the block
    ms until the count begins anew
]]
local function strike(count, age, rule, denials_key, blocks_key, now, expires_at)
  local most = 1000000000
  -- The last block is remembered for as long as denials from before its end may be reported.
  local kept = rule.max_ms + math.max(rule.forget_ms, rule.window)
  local of_denials = { algorithm = 'fixed-window', quota = rule.after, window = rule.window, burst = rule.after }
  local of_blocks = { algorithm = 'fixed-window', quota = most, window = kept, burst = most }
  local denials = open_state(of_denials, denials_key, now, expires_at)
  local blocks = open_state(of_blocks, blocks_key, now, expires_at)
  if denials.err or blocks.err then return denials.err or blocks.err end
  local function length_of(number)
    return math.min(rule.max_ms, math.floor(rule.for_ms * rule.factor ^ math.max(0, number - 1) + 0.5))
  end

  local _, remaining, block_reset = blocks.look(0)
  local number = most - remaining
  local ended = kept - block_reset - length_of(number)
  -- Denials from before the end of the last block have no part in the next, except the one that is reported now.
  if number > 0 and ended >= 0 and age > ended then count = 1 end
  local _, left = denials.look(0)
  if count < left then
    denials.charge(count)
    denials.save()
    return nil, 0, left - count, denials.reset()
  end
  number = (number > 0 and ended <= rule.forget_ms) and number + 1 or 1
  redis.call('UNLINK', denials_key, blocks_key)
  blocks = open_state(of_blocks, blocks_key, now, expires_at)
  blocks.charge(number)
  blocks.save()
  return nil, length_of(number), 0, 0
end
