--[[
  Opens one budget of a partner, and ends the units whose time is over. Its keys: `ends` (ZSET of moments at which units
  end, ms, rounded up to a thousandth of the interval) and `units` (HASH moment → units; `used`: their sum). Places of a
  partner (`interval` 0) are a ZSET holder → end of its lease, under the name `ends`. Fields of the result:
    rate, used       units, or places
    reserved         units that the walk keeps for calls of other processes
    last_end, after_answer   when a call that leaves now stops to count, if its answer is late or comes now
    add(end, units), give_back(end, units)   write; give_back returns how many units still counted
    wait(ahead, units)   ms until so many units fit behind the units of others who go first
]]
local BUDGET_KEEP_MS = 60000

local function budget_open(ends, units, rate, interval, now)
  local grain = math.max(1, math.floor(interval / 1000))
  local function rounded(at) return math.ceil((at + interval) / grain) * grain end
  local b = { key = ends, rate = rate, used = 0, reserved = 0, granted = 0, is_places = interval == 0 }
  local late = math.min(250, math.floor(interval / 5))
  local life = interval + late + BUDGET_KEEP_MS
  b.last_end, b.after_answer = rounded(now + late), rounded(now)
  if b.is_places then
    redis.call('ZREMRANGEBYSCORE', ends, '-inf', now)
    b.used = redis.call('ZCARD', ends)
    b.wait = function() return math.huge end
    return b
  end
  b.used = tonumber(redis.call('HGET', units, 'used') or nil) or 0
  local over = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', '0', '4000')
  if #over > 0 then
    local sum = 0
    for _, count in ipairs(redis.call('HMGET', units, unpack(over))) do sum = sum + (tonumber(count) or 0) end
    redis.call('ZREM', ends, unpack(over))
    redis.call('HDEL', units, unpack(over))
    b.used = math.max(0, b.used - sum)
    redis.call('HSET', units, 'used', string.format('%.0f', b.used))
  end
  if b.used > 0 and redis.call('EXISTS', ends) == 0 then b.used = 0 end
  if b.used == 0 then redis.call('DEL', units, ends) end
  b.base = b.used

  b.add = function(at, count)
    if count == 0 then return end
    local text = string.format('%.0f', at)
    redis.call('ZADD', ends, text, text)
    redis.call('HINCRBY', units, text, count)
    redis.call('HINCRBY', units, 'used', count)
    redis.call('PEXPIRE', ends, life)
    redis.call('PEXPIRE', units, life)
    b.used, b.base = b.used + count, b.base + count
  end
  b.give_back = function(at, most)
    local text = string.format('%.0f', at)
    local there = tonumber(redis.call('HGET', units, text) or nil) or 0
    local count = math.min(there, most)
    if count == 0 then return 0 end
    if count == there then
      redis.call('HDEL', units, text)
      redis.call('ZREM', ends, text)
    else
      redis.call('HINCRBY', units, text, -count)
    end
    redis.call('HINCRBY', units, 'used', -count)
    b.used, b.base = b.used - count, b.base - count
    return count
  end

  -- The moments at which units end, and how many have ended by then: read as far as somebody asks.
  local moments, sums = {}, {}
  local function end_of(nth)
    local index = 1
    while true do
      if not sums[index] then
        local first = #moments
        local more = redis.call('ZRANGE', ends, first, first == 0 and 7 or first * 8 - 1)
        if #more == 0 then return b.last_end end
        for i, count in ipairs(redis.call('HMGET', units, unpack(more))) do
          moments[#moments + 1] = tonumber(more[i])
          sums[#sums + 1] = (sums[#sums] or 0) + (tonumber(count) or 0)
        end
      end
      if sums[index] >= nth then return moments[index] end
      index = index + 1
    end
  end
  b.wait = function(ahead, count)
    local used = b.used + b.reserved
    local needed = count == 0 and 0 or used + ahead + count - rate
    if needed <= 0 then return 0 end
    local intervals = math.max(0, math.ceil((needed - used) / rate))
    local nth = needed - intervals * rate
    -- Units that leave in this call end last.
    local at = nth <= 0 and now or nth > b.base and b.last_end or end_of(nth)
    return math.max(1, at + intervals * interval - now)
  end
  return b
end

--[[
  The calls of one member that wait, as lists: one for each kind of calls, which take from the same budgets. `text` has
  for each kind a line: the numbers of its budgets and places, with spaces between them, a tab, and its calls in their
  order, "age number + units units …;"; '-': it leaves now or never, and is not kept. `named` are the budgets by these
  numbers; a kind with one that is not known here is left out, and `missing` is called with its number. `at`: the moment
  of which the ages tell. A list has `kind`, `wanted` (its budgets), `ticket` (when its first call began to wait; nil:
  it has none left), `number`, `units`, and `from`, where that call begins in `calls`.
]]
local function budget_advance(list)
  local age, number, units, next = string.match(list.calls, '^(%d+) (%d+) [+-] ([%d ]*);()', list.next)
  list.from, list.next = list.next, next
  list.ticket, list.number, list.units = age and list.at - age, number, {}
  for count in string.gmatch(units or '', '%d+') do list.units[#list.units + 1] = tonumber(count) end
end

local function budget_lists(lists, member, at, named, text, missing)
  for numbers, calls in string.gmatch(text, '([%d ]*)\t([^\n]*)\n') do
    local list, known = { member = member, at = at, kind = '', wanted = {}, numbers = numbers, calls = calls, next = 1 }, true
    for number in string.gmatch(numbers, '%d+') do
      local budget = named[tonumber(number)]
      known = known and budget
      if not budget then missing(tonumber(number)) end
      if budget then
        list.wanted[#list.wanted + 1] = budget
        list.kind = list.kind .. budget.key .. '\n'
      end
    end
    if known then
      budget_advance(list)
      lists[#lists + 1] = list
    end
  end
end

local BUDGET_CHECK_MS = 1000
local BUDGET_GRACE_MS = 900
local BUDGET_MOST_VISITED = 1000

--[[
  An ask of a process whose calls wait for budgets and places of a partner: carries out its changes, then lets calls
  leave that fit, in the order in which they began to wait over all processes. A call takes from all of its budgets at
  once, or from none. Calls pass those that wait for something else; nobody passes a call of the same kind.

  KEYS[1]      the calls that wait: HASH member → the moment of its last ask, the keys of its budgets, how many units
               wait there, what it gave as ARGV[5], and its calls, each in lines of their own
  KEYS[2]      ZSET member → the moment by which it asks again, ms
  KEYS[3]      the number of the last ask of this member
  KEYS[4..]    two keys of each budget or partner with places: see budget_open
  ARGV[1]      now, ms; '' for the server's clock
  ARGV[2]      member, "process/number"
  ARGV[3]      number of the ask: one that came before is not carried out again
  ARGV[4]      what the channel of every process begins with
  ARGV[5]      "rate interval," of each budget, or "places 0,"
  ARGV[6]      changes, "letter budget moment units;" or "letter budget holder lease;":
                 a  so many units, which count until that moment, were answered now: they end an interval from now,
                    unless they end before
                 b  they are given back
                 c  so many units count from now on, although nobody has asked for them
                 p  the holder keeps its place for so many ms; 0: it has left
  ARGV[7]      the calls of this member that wait: see budget_lists
  ARGV[8]      how many units wait in this process for each budget
  ARGV[9]      calls that must know how long they would wait: "budget units ahead," of each budget, and a semicolon.
               `ahead`: the units of this process that go first
  ARGV[10]     the lease of a place, ms
  ARGV[11]     how many budgets and places an ask may name: as long as those that it has not named fit, nobody leaves,
               so that no call of others is passed
  ARGV[12]     the last moment at which this may be carried out, ms

  Returns a list of now alone if it came too late; '0' if the ask is not new; else as text: 1, now and the ms until the
  next ask, with spaces between them, then the numbers of the calls that may leave, the wait and the budget that causes
  it for each question, and the used units of each budget, each list after a comma; and in a line for each budget or
  places that others wait for and that this ask has not named: "rate interval key".
]]
function budget_ask()
  local clock, member, number, channel = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
  local given, changes, calls, totals, questions = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
  local lease, most_named = tonumber(ARGV[10]), tonumber(ARGV[11])
  local waiting_key, asks_key, record = KEYS[1], KEYS[2], KEYS[3]
  local now = now_ms(clock)
  if is_late(now) then return { now } end
  local last = tonumber(redis.call('GET', record) or nil)
  if last and number <= last then return '0' end
  redis.call('SET', record, number, 'PX', '60000')

  local budgets, by_key, names = {}, {}, {}
  for rate, interval in string.gmatch(given, '(%d+) (%d+),') do
    local i = #budgets + 1
    names[i] = KEYS[2 + 2 * i]
    budgets[i] = budget_open(names[i], KEYS[3 + 2 * i], tonumber(rate), tonumber(interval), now)
    budgets[i].others = 0
    by_key[names[i]] = budgets[i]
  end

  for letter, budget, what, count in string.gmatch(changes, '(%a) (%d+) (%S+) (%d+);') do
    local b, units = budgets[tonumber(budget)], tonumber(count)
    if letter == 'a' then
      if b.after_answer < tonumber(what) then b.add(b.after_answer, b.give_back(tonumber(what), units)) end
    elseif letter == 'b' then
      b.give_back(tonumber(what), units)
    elseif letter == 'c' then
      b.add(b.after_answer, units)
    elseif units == 0 then
      b.used = b.used - redis.call('ZREM', b.key, what)
    elseif redis.call('ZADD', b.key, 'XX', 'CH', string.format('%.0f', now + units), what) == 1 then
      redis.call('PEXPIRE', b.key, units + BUDGET_KEEP_MS)
    end
  end

  local lists, asks_by, unnamed = {}, {}, {}
  budget_lists(lists, member, now, budgets, calls)
  local asks = redis.call('ZRANGE', asks_key, '0', '-1', 'WITHSCORES')
  for i = 1, #asks, 2 do asks_by[asks[i]] = tonumber(asks[i + 1]) end
  local stored = redis.call('HGETALL', waiting_key)
  for i = 1, #stored, 2 do
    local other = stored[i]
    if other ~= member then
      if not asks_by[other] or now > asks_by[other] + BUDGET_GRACE_MS then
        -- Its process seems to be dead; if it lives, it asks again.
        redis.call('HDEL', waiting_key, other)
        redis.call('ZREM', asks_key, other)
        line_tell(channel, other, ' 0')
      else
        local at, keys, units, limits, text = string.match(stored[i + 1], '^(%d+)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)$')
        local named, facts, index = {}, {}, 0
        local limit = string.gmatch(limits, '[^,]+')
        local waits = string.gmatch(units, '%d+')
        for key in string.gmatch(keys, '[^\t]+') do
          index = index + 1
          named[index], facts[index] = by_key[key], limit() .. ' ' .. key
          local count = tonumber(waits())
          if named[index] then named[index].others = named[index].others + count end
        end
        budget_lists(lists, other, tonumber(at), named, text, function(number) unnamed[facts[number]] = true end)
      end
    end
  end

  local more = {}
  for fact in pairs(unnamed) do more[#more + 1] = '\n' .. fact end
  table.sort(more)
  local asks_again = #more > 0 and #budgets + #more <= most_named

  local granted, next = {}, BUDGET_CHECK_MS
  local blocked, awaited = {}, {}
  for _ = 1, asks_again and 0 or BUDGET_MOST_VISITED do
    local first
    for _, list in ipairs(lists) do
      if list.ticket and not blocked[list.kind] and (not first or list.ticket < first.ticket) then first = list end
    end
    if not first then break end
    local lacking, passes, wait = {}, true, math.huge
    for i, b in ipairs(first.wanted) do
      local units = first.units[i]
      if units > 0 and awaited[b] then passes = false end
      if units > 0 and b.used + b.reserved + units > b.rate then
        lacking[#lacking + 1] = b
        wait = math.min(wait, b.wait(0, units))
      end
    end
    local mine = first.member == member
    if passes and #lacking == 0 then
      wait = 0
      for i, b in ipairs(first.wanted) do
        local units = first.units[i]
        if not mine then
          b.reserved = b.reserved + units
        elseif b.is_places then
          redis.call('ZADD', b.key, string.format('%.0f', now + lease), member .. '.' .. first.number)
          redis.call('PEXPIRE', b.key, lease + BUDGET_KEEP_MS)
          b.used = b.used + 1
        else
          b.used, b.granted = b.used + units, b.granted + units
        end
      end
      if mine then granted[#granted + 1] = first.number end
      budget_advance(first)
    else
      blocked[first.kind] = true
      for _, b in ipairs(lacking) do awaited[b] = true end
    end
    if mine then
      next = math.min(next, wait)
    elseif wait < math.huge and asks_by[first.member] > now + wait then
      asks_by[first.member] = now + wait
      redis.call('ZADD', asks_key, string.format('%.0f', now + wait), first.member)
      line_tell(channel, first.member, string.format(' %.0f', wait))
    end
    -- Somebody looks again when a process that must come now would have come if it lived.
    if not mine and asks_by[first.member] <= now then next = math.min(next, asks_by[first.member] + BUDGET_GRACE_MS + 1 - now) end
  end
  for _, b in ipairs(budgets) do
    if b.granted > 0 then
      local used, base = b.used, b.base
      b.add(b.last_end, b.granted)
      b.used, b.base = used, base
    end
  end

  local waits = {}
  for question in string.gmatch(asks_again and '' or questions, '([^;]*);') do
    local longest, cause = 0, 1
    for budget, units, ahead in string.gmatch(question, '(%d+) (%d+) (%d+),') do
      local b = budgets[tonumber(budget)]
      -- What the walk has reserved for others is of those that wait, and what it has granted here was ahead.
      local wait = b.wait(b.others - b.reserved + math.max(0, tonumber(ahead) - b.granted), tonumber(units))
      if wait < math.huge and wait > longest then longest, cause = wait, budget end
    end
    waits[#waits + 1] = string.format('%.0f %d', longest, cause)
  end

  local left = {}
  for _, list in ipairs(lists) do
    local rest = list.member == member and list.ticket and string.gsub(string.sub(list.calls, list.from), '%d+ %d+ %- [%d ]*;', '')
    if rest and rest ~= '' then left[#left + 1] = list.numbers .. '\t' .. rest .. '\n' end
  end
  if #left > 0 then
    local text = string.format('%.0f', now) .. '\n' .. table.concat(names, '\t') .. '\n' .. totals .. '\n' .. given .. '\n' .. table.concat(left)
    redis.call('HSET', waiting_key, member, text)
    redis.call('ZADD', asks_key, string.format('%.0f', now + next), member)
    redis.call('PEXPIRE', waiting_key, BUDGET_KEEP_MS)
    redis.call('PEXPIRE', asks_key, BUDGET_KEEP_MS)
  elseif asks_by[member] then
    redis.call('HDEL', waiting_key, member)
    redis.call('ZREM', asks_key, member)
  end
  local used = {}
  for i, b in ipairs(budgets) do used[i] = string.format('%.0f', b.used) end
  return string.format('1 %.0f %.0f', now, next) .. ',' .. table.concat(granted, ' ') .. ',' .. table.concat(waits, ' ') .. ',' .. table.concat(used, ' ') .. table.concat(more)
end
