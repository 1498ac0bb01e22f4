-- What the processes of a service may send to a partner.
local partners = {}

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
partners.KEEP_MS = 60000

function partners.open_budget(ends, units, rate, interval, now)
  local grain = math.max(1, math.floor(interval / 1000))
  local function rounded(at) return math.ceil((at + interval) / grain) * grain end
  local b = { key = ends, rate = rate, used = 0, reserved = 0, granted = 0, is_places = interval == 0 }
  local late = math.min(250, math.floor(interval / 5))
  local life = interval + late + partners.KEEP_MS
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
partners.GRACE_MS = 900
partners.MOST_VISITED = 1000

return partners
