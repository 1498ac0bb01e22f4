--[[
  An ask of a process whose calls wait for budgets and places of a partner. It tells what the calls of this process
  count by now, which stands in place of what the ask before told and was answered; then lets calls leave that fit, in
  the order in which they began to wait over all processes. A call takes from all of its budgets at once, or from none.
  Calls pass those that wait for something else; nobody passes a call of the same kind.

  KEYS[1]      the calls that wait: HASH member → the moment of its last ask, the keys of its budgets, how many units
               wait there, what it gave as ARGV[5], and its calls, each in lines of their own
  KEYS[2]      the members: see members.of
  KEYS[3]      HASH: `number` of the last ask of this member, and its row of each budget as it is counted here:
               "moment units " of each moment at which units end
  KEYS[4..]    two keys of each budget or partner with places: see partners.open_budget
  ARGV[1]      now, ms; '' for the server's clock
  ARGV[2]      the member that asks
  ARGV[3]      number of the ask: one that came before is not carried out again
  ARGV[4]      what the channel of every process begins with
  ARGV[5]      "rate interval," of each budget; the interval of places is 0
  ARGV[6]      the server's time when this member made the ask, ms ('' if it does not know), a semicolon, and its row of
               each budget: "ms units " of each moment, counted from that time, and a semicolon
  ARGV[7]      the calls of this member that wait: see partners.read_lists
  ARGV[8]      how many units wait in this process for each budget
  ARGV[9]      calls that must know how long they would wait: "budget units ahead," of each budget, and a semicolon.
               `ahead`: the units of this process that go first
  ARGV[10]     the lease of a place, ms
  ARGV[11]     how many budgets and places an ask may name: as long as those that it has not named fit, nobody leaves,
               so that no call of others is passed
  ARGV[12]     the last moment at which this may be carried out, ms

  Returns a list of now alone if it came too late; '0' if the ask is not new; else as text: now and the ms until the
  next ask, with a space between them, then the numbers of the calls that may leave, the wait and the budget that causes
  it for each question, and the used units of each budget, each list after a comma; and in a line for each budget
  or places that others wait for and that this ask has not named: "rate interval key".
]]
local timely = require 'redis.timely'
local partners = require 'outgoing.partners'
local members = require 'waiting.line.members'

local clock, member, number, channel = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local given, told, calls, totals, questions = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local lease, most_named = tonumber(ARGV[10]), tonumber(ARGV[11])
local waiting_key, record = KEYS[1], KEYS[3]
local now = timely.now_ms(clock)
if timely.is_late(now) then return { now } end
local last = tonumber(redis.call('HGET', record, 'number') or nil)
if last and number <= last then return '0' end

local budgets, by_key, names = {}, {}, {}
for rate, interval in string.gmatch(given, '(%d+) (%d+),') do
  local i = #budgets + 1
  names[i] = KEYS[2 + 2 * i]
  budgets[i] = partners.open_budget(names[i], KEYS[3 + 2 * i], tonumber(rate), tonumber(interval), lease, now)
  budgets[i].others = 0
  by_key[names[i]] = budgets[i]
end

local base, rows = string.match(told, '^(%d*);(.*)$')
base = tonumber(base)
-- The clock of a server that was set, or that took over.
if not base or math.abs(now - base) > partners.LONGEST_ASK_MS then base = now end
local before = #names > 0 and redis.call('HMGET', record, unpack(names)) or {}
local after, keep = {}, partners.KEEP_MS
for row in string.gmatch(rows, '([^;]*);') do
  local i = #after + 1
  after[i] = string.gsub(row, '(%d+) (%d+) ', function(ms, units)
    return string.format('%.0f %s ', base + tonumber(ms), units)
  end)
  if after[i] ~= (before[i] or '') then budgets[i].replace(before[i] or '', after[i]) end
  keep = math.max(keep, budgets[i].life)
end

local lists, unnamed = {}, {}
partners.read_lists(lists, member, now, budgets, calls)
local line = members.of(KEYS[2], channel, now)
members.read(line)
local stored = redis.call('HGETALL', waiting_key)
for i = 1, #stored, 2 do
  local other = stored[i]
  if other ~= member then
    if not members.asks_by(line, other) then
      redis.call('HDEL', waiting_key, other)
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
      partners.read_lists(lists, other, tonumber(at), named, text, function(fact) unnamed[facts[fact]] = true end)
    end
  end
end

local more = {}
for fact in pairs(unnamed) do more[#more + 1] = '\n' .. fact end
table.sort(more)
local asks_again = #more > 0 and #budgets + #more <= most_named

local granted, next = {}, partners.CHECK_MS
local blocked, awaited = {}, {}
for _ = 1, asks_again and 0 or partners.MOST_VISITED do
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
      if mine then
        b.used, b.granted = b.used + units, b.granted + units
      else
        b.reserved = b.reserved + units
      end
    end
    if mine then granted[#granted + 1] = first.number end
    partners.advance(first)
  else
    blocked[first.kind] = true
    for _, b in ipairs(lacking) do awaited[b] = true end
  end
  if mine then
    next = math.min(next, wait)
  else
    if wait < math.huge then members.notify(line, first.member, wait, string.format(' %.0f', wait)) end
    local asks_by = members.asks_by(line, first.member)
    if asks_by <= now then next = math.min(next, members.evictable_at(asks_by) - now) end
  end
end
redis.call('HSET', record, 'number', number)
for i, b in ipairs(budgets) do
  if b.granted > 0 then
    local used, base_before = b.used, b.base
    b.add(b.last_end, b.granted)
    b.used, b.base = used, base_before
    after[i] = after[i] .. string.format('%.0f %d ', b.last_end, b.granted)
  end
  b.close()
  if after[i] == '' then
    if before[i] then redis.call('HDEL', record, names[i]) end
  elseif after[i] ~= before[i] then
    redis.call('HSET', record, names[i], after[i])
  end
end
redis.call('PEXPIRE', record, keep)

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
  local rest = list.member == member and list.ticket
    and string.gsub(string.sub(list.calls, list.from), '%d+ %d+ %- [%d ]*;', '')
  if rest and rest ~= '' then left[#left + 1] = list.numbers .. '\t' .. rest .. '\n' end
end
if #left > 0 then
  local head = string.format('%.0f', now) .. '\n' .. table.concat(names, '\t')
  local text = head .. '\n' .. totals .. '\n' .. given .. '\n' .. table.concat(left)
  redis.call('HSET', waiting_key, member, text)
  members.will_ask(line, member, next)
  redis.call('PEXPIRE', waiting_key, partners.KEEP_MS)
  redis.call('PEXPIRE', line.asks, partners.KEEP_MS)
elseif line.asks_by[member] then
  redis.call('HDEL', waiting_key, member)
  members.remove(line, member)
end
local used = {}
for i, b in ipairs(budgets) do used[i] = string.format('%.0f', b.used) end
local reply = string.format('%.0f %.0f', now, next) .. ',' .. table.concat(granted, ' ')
return reply .. ',' .. table.concat(waits, ' ') .. ',' .. table.concat(used, ' ') .. table.concat(more)
