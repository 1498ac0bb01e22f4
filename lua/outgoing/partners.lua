-- What the processes of a service may send to a partner.
local partners = {}

--[[
  Opens one budget of a partner, and ends the units whose time is over. Its keys: `ends` (ZSET of moments at which units
  end, ms, rounded up to a thousandth of the interval) and `units` (HASH moment → units; `used`: their sum). Places of a
  partner are a budget with the interval 0, whose units end with the lease of who holds them. Fields of the result:
    rate, used       units, or places
    reserved         units that the walk keeps for calls of other processes
    granted          units that the walk gives to calls of this member
    last_end         when a call that leaves now stops to count, if its answer is late
    life             how long the keys live after the last unit was added, ms
    add(end, units)  counts units
    replace(before, after)   counts the row of a member in place of the one that it had: "moment units " of each moment
    close()          keeps what was counted
    wait(ahead, units)   ms until so many units fit behind the units of others who go first
]]
partners.KEEP_MS = 60000
-- An ask is not carried out so long after it was made.
partners.LONGEST_ASK_MS = 2000

function partners.open_budget(ends, units, rate, interval, lease, now)
  local grain = math.max(1, math.floor(interval / 1000))
  local late = interval == 0 and lease or math.min(250, math.floor(interval / 5))
  local b = { key = ends, rate = rate, used = 0, reserved = 0, granted = 0 }
  -- What is held counts until an interval after its lease.
  b.life = interval + lease + partners.KEEP_MS
  b.last_end = math.ceil((now + late + interval) / grain) * grain
  b.used = tonumber(redis.call('HGET', units, 'used') or nil) or 0
  local over = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', '0', '4000')
  if #over > 0 then
    local sum = 0
    for _, count in ipairs(redis.call('HMGET', units, unpack(over))) do sum = sum + (tonumber(count) or 0) end
    redis.call('ZREM', ends, unpack(over))
    redis.call('HDEL', units, unpack(over))
    b.used = math.max(0, b.used - sum)
  end
  if b.used > 0 and redis.call('EXISTS', ends) == 0 then b.used = 0 end
  if b.used == 0 then redis.call('DEL', units, ends) end
  b.base = b.used
  local count_now, is_changed = b.used, #over > 0

  b.add = function(at, count)
    local text = string.format('%.0f', at)
    redis.call('ZADD', ends, text, text)
    redis.call('HINCRBY', units, text, count)
    b.used, b.base = b.used + count, b.base + count
    count_now, is_changed = count_now + count, true
  end
  local function give_back(text, most)
    local there = tonumber(redis.call('HGET', units, text) or nil) or 0
    local count = math.min(there, most)
    if count == 0 then return end
    if count == there then
      redis.call('HDEL', units, text)
      redis.call('ZREM', ends, text)
    else
      redis.call('HINCRBY', units, text, -count)
    end
    b.used, b.base = b.used - count, b.base - count
    count_now, is_changed = count_now - count, true
  end
  b.close = function()
    if not is_changed then return end
    if count_now == 0 then
      redis.call('DEL', units, ends)
      return
    end
    redis.call('HSET', units, 'used', string.format('%.0f', count_now))
    redis.call('PEXPIRE', ends, b.life)
    redis.call('PEXPIRE', units, b.life)
  end
  b.replace = function(before, after)
    local more = {}
    -- If nothing is counted here, Redis has lost what this member had.
    for at, count in string.gmatch(b.used > 0 and before or '', '(%d+) (%d+)') do more[at] = (more[at] or 0) - count end
    for at, count in string.gmatch(after, '(%d+) (%d+)') do more[at] = (more[at] or 0) + count end
    for at, count in pairs(more) do
      if count < 0 then
        give_back(at, -count)
      elseif count > 0 and tonumber(at) > now then
        b.add(at, count)
      end
    end
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
      -- What is held until the end of a lease may end an interval from now.
      if sums[index] >= nth then return math.min(moments[index], b.last_end) end
      index = index + 1
    end
  end
  b.wait = function(ahead, count)
    local used = b.used + b.reserved
    if interval == 0 then return used + count > rate and math.huge or 0 end
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
function partners.advance(list)
  local age, number, units, next = string.match(list.calls, '^(%d+) (%d+) [+-] ([%d ]*);()', list.next)
  list.from, list.next = list.next, next
  list.ticket, list.number, list.units = age and list.at - age, number, {}
  for count in string.gmatch(units or '', '%d+') do list.units[#list.units + 1] = tonumber(count) end
end

function partners.read_lists(lists, member, at, named, text, missing)
  for numbers, calls in string.gmatch(text, '([%d ]*)\t([^\n]*)\n') do
    local list = { member = member, at = at, kind = '', wanted = {}, numbers = numbers, calls = calls, next = 1 }
    local known = true
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
      partners.advance(list)
      lists[#lists + 1] = list
    end
  end
end

partners.CHECK_MS = 1000
partners.MOST_VISITED = 1000

return partners
