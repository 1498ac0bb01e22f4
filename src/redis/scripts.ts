// Generated from lua/ by `npm run embed`: change the .lua files, not this one.
import type { Script } from './script.js'

export const block: Script = {
  name: 'block',
  sha1: '2e5edd944abd05539e25b5ab1f0a25cda598859a',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function expiry(clock, now)
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
return function(reset)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
return text
end
end
local clock = ARGV[1]
local now = now_ms(clock)
local duration = tonumber(ARGV[2])
for i = 1, #KEYS / 2 do
local list, member = KEYS[i], KEYS[#KEYS / 2 + i]
if duration > 0 then
redis.call('ZADD', list, now + duration, member)
local free = redis.call('ZRANGEBYSCORE', list, '-inf', now, 'LIMIT', 0, 16)
if #free > 0 then redis.call('ZREM', list, unpack(free)) end
local last = redis.call('ZRANGE', list, -1, -1, 'WITHSCORES')
redis.call('PEXPIREAT', list, expiry(clock, now)(last[2] - now))
else
redis.call('ZREM', list, member)
end
end`,
}

export const book: Script = {
  name: 'book',
  sha1: 'ba43975a6d06975c59cd78ad962e097411ba2963',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function read_limits(first, count)
local limits = {}
for i = 1, count do
limits[i] = {
algorithm = ARGV[first],
quota = tonumber(ARGV[first + 1]),
window = tonumber(ARGV[first + 2]),
burst = tonumber(ARGV[first + 3]),
}
first = first + 4
end
return limits, first
end
local function expiry(clock, now)
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
return function(reset)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
return text
end
end
local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local function load_rows(keys, at, x, y, errors)
local count = #keys
if count == 0 then return end
local values = redis.call('MGET', unpack(keys))
local missing, places = {}, {}
for i = 1, count do
local value = values[i]
if not value then
missing[#missing + 1] = keys[i]
places[#places + 1] = i
x[i], y[i] = 0, 0
elseif #value ~= 24 then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
else
at[i], x[i], y[i] = struct.unpack('<ddd', value)
if math.floor(at[i]) ~= at[i] or math.abs(at[i]) > 9007199254740992 or not (x[i] >= 0 and y[i] >= 0) then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
end
end
if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
for i, key in ipairs(missing) do
local kind = redis.call('TYPE', key).ok
if kind ~= 'none' then errors[places[i]] = 'WRONGTYPE the key holds a ' .. kind end
end
end
local function save_rows(slots, keys, at, x, y, expire_at)
if #slots == 0 then return end
local pairs_of = {}
for i = 1, #slots do
local slot = slots[i]
pairs_of[2 * i - 1] = keys[slot]
pairs_of[2 * i] = struct.pack('<ddd', at[slot], x[slot], y[slot])
end
redis.call('MSET', unpack(pairs_of))
for i = 1, #slots do
local slot = slots[i]
redis.call('PEXPIREAT', keys[slot], expire_at[slot])
end
end
local function fixed_window(limit, now, cost, at, x)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
next_at, next_x, next_y = at, x, 0
retry, delay = 0, 0
if at then
if at > now then
next_at = now
elseif at - now + window <= 0 then
next_at, next_x = nil, 0
end
end
if cost > quota then
retry = -1
elseif cost > 0 and next_x + cost > quota then
retry = next_at - now + window
elseif cost > 0 then
next_at = next_at or now
next_x = next_x + cost
end
remaining = next_x < quota and quota - next_x or 0
reset = next_at and next_at - now + window or 0
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function bucket(limit, now, cost, at, x, y)
local quota, window, burst, shaped = limit.quota, limit.window, limit.burst, limit.algorithm == 'leaky-bucket'
local retry, remaining, reset, delay, next_at, next_x, next_y
local most, found = 0, 0
if quota > 0 then
most = burst
if at then
found = x
if now > at then found = x - quota * (now - at) end
if found < 0 then found = 0 end
end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
local over = found - (most - cost) * window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, quota)
else
after = found + cost * window
next_at, next_x, next_y = now, after, quota
if shaped then delay = ceil_div(found, quota) end
end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
remaining = left / window
remaining = remaining - remaining % 1
if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
reset = after / quota
reset = reset - reset % 1
if reset * quota > after then reset = reset - 1 end
if reset * quota < after then reset = reset + 1 end
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function roll_cells(quota, window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, x, y)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
local cell, inside, before = roll_cells(quota, window, now, at, x, y)
local overlap = cell - now + window
local room = quota - cost - inside
retry, reset, delay = 0, 0, 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
remaining = quota - inside - ceil_div(before * overlap, window)
if remaining < 0 then remaining = 0 end
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
if retry == 0 and cost > 0 or at and at > cell then
next_at, next_x, next_y = cell, inside, before
else
next_at, next_x, next_y = at, x, y
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), limit.quota
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), limit.quota
end
local function log_pack(at, total)
if total < 65536 then return struct.pack('>I6I2', at, total) end
if total < 16777216 then return struct.pack('>I6I3', at, total) end
if total < 4294967296 then return struct.pack('>I6I4', at, total) end
return struct.pack('>I6I7', at, total)
end
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
return struct.unpack(log_formats[#entry], entry)
end
local function log_search(key, low, high, test)
local found_at, found_total
while low < high do
local middle = math.floor((low + high) / 2)
local at, total = log_unpack(redis.call('LINDEX', key, middle))
if test(at, total) then
high, found_at, found_total = middle, at, total
else
low = middle + 1
end
end
return high, found_at, found_total
end
local function log_open(key, window, now, writable)
local head = redis.pcall('LRANGE', key, '0', '1')
if head.err then return head end
if not head[1] then return { gone = 0, total = 0, booked = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local booked, gone = log_unpack(head[1])
local log = { gone = gone, booked = booked, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
local last = redis.call('LINDEX', key, '-1')
if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' } end
log.newest, log.total = log_unpack(last)
if log.newest > now and booked < log.newest then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, '0', from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('LSET', key, '0', log_pack(0, gone))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, booked = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, '-1')
if booked > now then redis.call('LSET', key, '0', log_pack(booked, before)) end
log.first = 1
end
end
return log
end
local function log_refund(key, log, cost, expire_at)
if not log.newest or cost == 0 then return end
local total = math.max(log.gone, log.total - cost)
if total == log.gone then
redis.call('DEL', key)
return
end
local index, at, reached = log_search(key, 1, redis.call('LLEN', key), function(_, sum) return sum >= total end)
redis.call('LTRIM', key, '0', index)
if reached > total then redis.call('LSET', key, '-1', log_pack(at, total)) end
redis.call('PEXPIREAT', key, expire_at)
end
local function log_rebase(key, log)
local gone = log.gone
if log.stored then
local entries = redis.call('LRANGE', key, '0', '-1')
redis.call('DEL', key)
redis.call('RPUSH', key, log_pack(log.booked, 0))
for i = 2, #entries do
local at, total = log_unpack(entries[i])
redis.call('RPUSH', key, log_pack(at, total - gone))
end
end
log.gone, log.total = 0, log.total - gone
if log.oldest then log.oldest_total = log.oldest_total - gone end
end
local function log_book(key, log, now, at, cost, expire_at)
if log.rubbish then redis.call('DEL', key) end
log.rubbish = nil
if log.total + cost > 9007199254740991 then log_rebase(key, log) end
log.total = math.min(log.total + cost, 9007199254740991)
local entry = log_pack(at, log.total)
local booked = at > now and at or 0
if not log.stored then
redis.call('RPUSH', key, log_pack(booked, log.gone), entry)
else
if log.stored == at then
redis.call('LSET', key, '-1', entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('LSET', key, '0', log_pack(booked, log.gone))
end
if not log.oldest then log.oldest, log.first = at, 1 end
if log.oldest == at then log.oldest_total = log.total end
log.stored, log.newest, log.booked = at, at, booked
redis.call('PEXPIREAT', key, expire_at)
end
local function sliding_window(limit, now, cost, key, log)
local spent = log.total - log.gone
local reset = log.newest and log.newest - now + limit.window or 0
if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, limit.window, 0 end
if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
local enough = log.total - (limit.quota - cost)
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function standing(limit, key, now, clock, expires_at)
expires_at = expires_at or expiry(clock, now)
local measure_row = row_measures[limit.algorithm]
if measure_row then
local at, x, y, errors = {}, {}, {}, {}
load_rows({ key }, at, x, y, errors)
local function charge(cost) at[1], x[1], y[1] = charge_row(limit, now, cost, at[1], x[1], y[1]) end
return {
err = errors[1],
measure = function(cost)
local retry, remaining, reset, delay = measure_row(limit, now, cost, at[1], x[1], y[1])
if retry > 0 and limit.algorithm == 'leaky-bucket' then
delay = ceil_div((limit.burst - cost) * limit.window, limit.quota)
end
return retry < 0 and -1 or retry + delay, remaining, reset
end,
book = charge,
charge = charge,
refund = function(cost)
local new_at, new_x, new_y = refund_row(limit, now, cost, at[1], x[1], y[1])
if new_at then at[1], x[1], y[1] = new_at, new_x, new_y end
end,
save = function()
if not at[1] then return end
local _, _, reset = measure_row(limit, now, 0, at[1], x[1], y[1])
save_rows({ 1 }, { key }, at, x, y, { expires_at(reset) })
end,
}
end
local log = log_open(key, limit.window, now, true)
return {
err = log.err,
measure = function(cost) return sliding_window(limit, now, cost, key, log) end,
book = function(cost, wait) log_book(key, log, now, now + wait, cost, expires_at(wait + limit.window)) end,
charge = function(cost)
local at = math.max(now, log.newest or now)
log_book(key, log, now, at, cost, expires_at(at - now + limit.window))
end,
refund = function(cost)
if not log.newest then return end
log_refund(key, log, cost, expires_at(math.max(0, log.newest - now) + limit.window))
log = log_open(key, limit.window, now, true)
end,
save = function() end,
}
end
local function waiting_now(list, now)
local waiting = {}
local gone = 0
for _, packed in ipairs(redis.call('LRANGE', list, '0', '-1')) do
local turn, cost = struct.unpack('>I6I7', packed)
if turn <= now then
gone = gone + 1
else
waiting[#waiting + 1] = { turn = turn, cost = cost, id = string.sub(packed, 14) }
end
end
if gone > 0 then redis.call('LTRIM', list, gone, '-1') end
return waiting
end
local function waiter_pack(turn, cost, id)
return struct.pack('>I6I7', turn, cost) .. id
end
local function blocked_until(list, member)
return tonumber(redis.call('ZSCORE', list, member) or 0)
end
local key, list, block_list = KEYS[1], KEYS[2], KEYS[3]
local clock = ARGV[1]
local now = now_ms(clock)
local cost = tonumber(ARGV[2])
local patience = tonumber(ARGV[3])
local id = ARGV[4]
local limit = read_limits(6, 1)[1]
local function answer(...)
local out = { ... }
for i = 2, #out do
local number = out[i]
if type(number) == 'number' and math.abs(number) > 9007199254740928 then out[i] = string.format('%.0f', number) end
end
return out
end
local state = standing(limit, key, now, clock)
if state.err then return redis.error_reply(state.err) end
local wait, remaining, reset, _ = state.measure(cost)
local blocked = wait < 0 and 0 or math.max(0, blocked_until(block_list, key) - now)
if blocked > 0 then
_, remaining, reset = state.measure(0)
return answer(math.max(wait, blocked), remaining, reset, blocked)
end
if wait < 0 or (patience >= 0 and wait > patience) then return answer(wait, remaining, reset, 0) end
if wait > 0 then waiting_now(list, now) end
state.book(cost, wait)
state.save()
if wait > 0 then
redis.call('RPUSH', list, waiter_pack(now + wait, cost, id))
redis.call('PEXPIREAT', list, expiry(clock, now)(wait))
end
_, remaining, reset = state.measure(0)
return answer(wait, remaining, reset, 0)`,
}

export const consume: Script = {
  name: 'consume',
  sha1: '0fd0df2ead69197033dc91ae0ea959ae494d4e7f',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
return struct.unpack(log_formats[#entry], entry)
end
local function log_pack(at, total)
if total < 65536 then return struct.pack('>I6I2', at, total) end
if total < 16777216 then return struct.pack('>I6I3', at, total) end
if total < 4294967296 then return struct.pack('>I6I4', at, total) end
return struct.pack('>I6I7', at, total)
end
local function log_save(key, log, expire_at)
if log.rubbish then redis.call('DEL', key) end
local entry = log_pack(log.newest, log.total)
if not log.stored then
redis.call('RPUSH', key, log_pack(0, log.gone), entry)
elseif log.stored == log.newest then
redis.call('LSET', key, '-1', entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('PEXPIREAT', key, expire_at)
end
local rare
local function rarely()
if not rare then
local function log_search(key, low, high, test)
local found_at, found_total
while low < high do
local middle = math.floor((low + high) / 2)
local at, total = log_unpack(redis.call('LINDEX', key, middle))
if test(at, total) then
high, found_at, found_total = middle, at, total
else
low = middle + 1
end
end
return high, found_at, found_total
end
local function log_open(key, window, now, writable)
local head = redis.pcall('LRANGE', key, '0', '1')
if head.err then return head end
if not head[1] then return { gone = 0, total = 0, booked = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local booked, gone = log_unpack(head[1])
local log = { gone = gone, booked = booked, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
local last = redis.call('LINDEX', key, '-1')
if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' } end
log.newest, log.total = log_unpack(last)
if log.newest > now and booked < log.newest then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, '0', from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('LSET', key, '0', log_pack(0, gone))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, booked = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, '-1')
if booked > now then redis.call('LSET', key, '0', log_pack(booked, before)) end
log.first = 1
end
end
return log
end
local function log_rebase(key, log)
local gone = log.gone
if log.stored then
local entries = redis.call('LRANGE', key, '0', '-1')
redis.call('DEL', key)
redis.call('RPUSH', key, log_pack(log.booked, 0))
for i = 2, #entries do
local at, total = log_unpack(entries[i])
redis.call('RPUSH', key, log_pack(at, total - gone))
end
end
log.gone, log.total = 0, log.total - gone
if log.oldest then log.oldest_total = log.oldest_total - gone end
end
local function sliding_window(limit, now, cost, key, log)
local spent = log.total - log.gone
local reset = log.newest and log.newest - now + limit.window or 0
if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, limit.window, 0 end
if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
local enough = log.total - (limit.quota - cost)
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
rare = { open = log_open, rebase = log_rebase, measure = sliding_window }
end
return rare
end
local function roll_cells(quota, window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local call, pack, read = redis.call, struct.pack, struct.unpack
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
if valid_until and now > valid_until then return { now } end
local spending = ARGV[3] == '1'
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
local out, size = { now }, 1
local width, count = tonumber(ARGV[4]), #KEYS
local limits, rows = {}, 0
for j = 1, width do
local algorithm = ARGV[4 * j + 1]
local has_log = algorithm == 'sliding-window'
if not has_log then rows = rows + 1 end
limits[j] = {
algorithm = algorithm,
quota = tonumber(ARGV[4 * j + 2]),
window = tonumber(ARGV[4 * j + 3]),
burst = tonumber(ARGV[4 * j + 4]),
row = not has_log and rows,
at = 0,
x = 0,
y = 0,
next_at = 0,
next_x = 0,
next_y = 0,
retry = 0,
remaining = 0,
reset = 0,
delay = 0,
blocked_until = 0,
}
end
local costs_at = 4 * width + 5
local one_cost = #ARGV == costs_at and tonumber(ARGV[costs_at])
local some_blocked = call('EXISTS', unpack(KEYS, 1, width)) > 0
local values, strange
if rows > 0 then
local keys = KEYS
if rows < width then
keys = { unpack(KEYS, 1, width) }
for i = width + 1, count do
if limits[(i - 1) % width + 1].row then keys[#keys + 1] = KEYS[i] end
end
end
values = call('MGET', unpack(keys, width + 1))
local missing
for i = 1, #values do
if not values[i] then
missing = missing or {}
missing[#missing + 1] = keys[width + i]
end
end
strange = missing and call('EXISTS', unpack(missing)) > 0
end
local writes, expire_at, written, place = {}, {}, 0, {}
local logs, changed = {}, {}
for first = width, count - 1, width do
local request = first / width - 1
local asked = one_cost or tonumber(ARGV[costs_at + request])
local cost, allowed, failure, again = asked, true, nil, false
repeat
for j = 1, width do
local limit = limits[j]
if not again or limit.retry == 0 then
local key = KEYS[first + j]
local algorithm, quota, window, burst = limit.algorithm, limit.quota, limit.window, limit.burst
local retry, remaining, reset, delay
if not limit.row then
local log = logs[key]
if not log then
local head = redis.pcall('LRANGE', key, '0', '2')
local second = head[2]
if second then
local last = head[3] and call('LINDEX', key, '-1') or second
local head_format, second_format, last_format = log_formats[#head[1]], log_formats[#second], log_formats[#last]
if head_format and second_format and last_format then
local booked, gone = read(head_format, head[1])
local oldest, oldest_total = read(second_format, second)
local newest, total = read(last_format, last)
if newest <= now and now - oldest < window then
log = {
booked = booked,
gone = gone,
oldest = oldest,
oldest_total = oldest_total,
newest = newest,
total = total,
stored = newest,
expire_at = false,
}
end
end
elseif not head[1] and not head.err then
log = {
booked = 0,
gone = 0,
oldest = false,
oldest_total = 0,
newest = false,
total = 0,
stored = false,
expire_at = false,
}
end
if not log then log = rarely().open(key, window, now, spending) end
logs[key] = log
end
failure = log.err
if failure then break end
retry, remaining, reset, delay = 0, quota - (log.total - log.gone) - cost, window, 0
if remaining < 0 or cost == 0 then
retry, remaining, reset = rarely().measure(limit, now, cost, key, log)
end
else
local at, x, y = limit.at, limit.x, limit.y
if not again then
local slot = place[key]
local value = slot and writes[2 * slot] or values[request * rows + limit.row]
at, x, y = nil, 0, 0
if value then
if #value == 24 then at, x, y = read('<ddd', value) end
if not at or at % 1 ~= 0 or at > 9007199254740992 or at < -9007199254740992 or not (x >= 0 and y >= 0) then
failure = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
elseif strange then
local kind = call('TYPE', key).ok
if kind ~= 'none' then failure = 'WRONGTYPE the key holds a ' .. kind end
end
if failure then break end
limit.at, limit.x, limit.y = at, x, y
end
local next_at, next_x, next_y
if algorithm == 'fixed-window' then
next_at, next_x, next_y = at, x, 0
retry, delay = 0, 0
if at then
if at > now then
next_at = now
elseif at - now + window <= 0 then
next_at, next_x = nil, 0
end
end
if cost > quota then
retry = -1
elseif cost > 0 and next_x + cost > quota then
retry = next_at - now + window
elseif cost > 0 then
next_at = next_at or now
next_x = next_x + cost
end
remaining = next_x < quota and quota - next_x or 0
reset = next_at and next_at - now + window or 0
elseif algorithm == 'sliding-counter' then
local cell, inside, before = roll_cells(quota, window, now, at, x, y)
local overlap = cell - now + window
local room = quota - cost - inside
retry, reset, delay = 0, 0, 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
remaining = quota - inside - ceil_div(before * overlap, window)
if remaining < 0 then remaining = 0 end
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
if retry == 0 and cost > 0 or at and at > cell then
next_at, next_x, next_y = cell, inside, before
else
next_at, next_x, next_y = at, x, y
end
else
local shaped = algorithm == 'leaky-bucket'
local most, found = 0, 0
if quota > 0 then
most = burst
if at then
found = x
if now > at then found = x - quota * (now - at) end
if found < 0 then found = 0 end
end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
local over = found - (most - cost) * window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, quota)
else
after = found + cost * window
next_at, next_x, next_y = now, after, quota
if shaped then delay = ceil_div(found, quota) end
end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
remaining = left / window
remaining = remaining - remaining % 1
if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
reset = after / quota
reset = reset - reset % 1
if reset * quota > after then reset = reset - 1 end
if reset * quota < after then reset = reset + 1 end
end
end
limit.next_at, limit.next_x, limit.next_y = next_at, next_x, next_y
end
limit.retry, limit.remaining, limit.reset, limit.delay = retry, remaining, reset, delay
if not again then
local blocked_until = some_blocked and tonumber(call('ZSCORE', KEYS[j], key) or 0) or 0
limit.blocked_until = blocked_until
if retry ~= 0 or blocked_until > now then allowed = false end
end
end
end
again = not again and not allowed and not failure and cost > 0
cost = 0
until not again
if failure then
size = size + 1
out[size] = failure
else
cost = allowed and asked or 0
for j = 1, width do
local limit, key = limits[j], KEYS[first + j]
local retry, remaining, reset, delay = limit.retry, limit.remaining, limit.reset, limit.delay
if spending then
if limit.row then
local slot, at, x, y = place[key], limit.at, limit.x, limit.y
local next_at, next_x, next_y = limit.next_at, limit.next_x, limit.next_y
if next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
if not slot then
written = written + 1
slot = written
place[key] = slot
writes[2 * slot - 1] = key
end
writes[2 * slot] = pack('<ddd', next_at, next_x, next_y)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
expire_at[slot] = text
end
elseif cost > 0 then
local log = logs[key]
if log.total + cost > 9007199254740991 then rarely().rebase(key, log) end
log.total = log.total + cost
log.newest = now
if not log.oldest or log.oldest == now then log.oldest, log.oldest_total = now, log.total end
if not log.expire_at then changed[#changed + 1] = key end
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
log.expire_at = text
end
end
local blocked_until = limit.blocked_until
local blocked, shaped = blocked_until > now, limit.algorithm == 'leaky-bucket'
if retry == 0 and not blocked then
out[size + 1] = remaining
out[size + 2] = reset
size = size + 2
if shaped then
size = size + 1
out[size] = delay
end
else
if blocked and retry >= 0 then retry = -2 - math.max(retry, blocked_until - now) end
out[size + 1] = -1 - remaining
out[size + 2] = reset
out[size + 3] = retry
size = size + 3
end
end
end
end
if written == 1 then
call('SET', writes[1], writes[2], 'PXAT', expire_at[1])
elseif written > 0 then
call('MSET', unpack(writes))
for slot = 1, written do call('PEXPIREAT', writes[2 * slot - 1], expire_at[slot]) end
end
for i = 1, #changed do
local key = changed[i]
log_save(key, logs[key], logs[key].expire_at)
end
for j = 1, width do
if limits[j].quota > 9007199254740928 or limits[j].window > 9007199254740928 then
for i = 2, #out do
local number = out[i]
if type(number) == 'number' and math.abs(number) > 9007199254740928 then out[i] = string.format('%.0f', number) end
end
break
end
end
return out`,
}

export const consumeFixedWindow: Script = {
  name: 'consume_fixed_window',
  sha1: '5d681afde83989e20636dbe7c8d5b49cca2fa2c2',
  source: `local shaped = false
local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local call, pack, read = redis.call, struct.pack, struct.unpack
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
if valid_until and now > valid_until then return { now } end
local spending = ARGV[3] == '1'
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
local out, size = { now }, 1
local quota, window, burst = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local one_cost = #ARGV < 8 and tonumber(ARGV[7] or 1)
local some_blocked = call('EXISTS', KEYS[1]) > 0
local count = #KEYS
local values = call('MGET', unpack(KEYS, 2))
local missing
for i = 2, count do
if not values[i - 1] then
missing = missing or {}
missing[#missing + 1] = KEYS[i]
end
end
local strange = missing and call('EXISTS', unpack(missing)) > 0
local writes, expire_at, written, place = {}, {}, 0, {}
for i = 2, count do
local key = KEYS[i]
local slot = place[key]
local value = slot and writes[2 * slot] or values[i - 1]
local failure, at
local x, y = 0, 0
if value then
if #value == 24 then at, x, y = read('<ddd', value) end
if not at or at % 1 ~= 0 or at > 9007199254740992 or at < -9007199254740992 or not (x >= 0 and y >= 0) then
failure = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
elseif strange then
local kind = call('TYPE', key).ok
if kind ~= 'none' then failure = 'WRONGTYPE the key holds a ' .. kind end
end
if failure then
size = size + 1
out[size] = failure
else
local cost = one_cost or tonumber(ARGV[5 + i])
local blocked_until = some_blocked and tonumber(call('ZSCORE', KEYS[1], key) or 0) or 0
local blocked = blocked_until > now
local retry, remaining, reset, delay, next_at, next_x, next_y
repeat
next_at, next_x, next_y = at, x, 0
retry, delay = 0, 0
if at then
if at > now then
next_at = now
elseif at - now + window <= 0 then
next_at, next_x = nil, 0
end
end
if cost > quota then
retry = -1
elseif cost > 0 and next_x + cost > quota then
retry = next_at - now + window
elseif cost > 0 then
next_at = next_at or now
next_x = next_x + cost
end
remaining = next_x < quota and quota - next_x or 0
reset = next_at and next_at - now + window or 0
local again = blocked and retry == 0 and cost > 0
if again then cost = 0 end
until not again
if spending then
if next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
if not slot then
written = written + 1
slot = written
place[key] = slot
writes[2 * slot - 1] = key
end
writes[2 * slot] = pack('<ddd', next_at, next_x, next_y)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
expire_at[slot] = text
end
end
if retry == 0 and not blocked then
out[size + 1] = remaining
out[size + 2] = reset
size = size + 2
if shaped then
size = size + 1
out[size] = delay
end
else
if blocked and retry >= 0 then retry = -2 - math.max(retry, blocked_until - now) end
out[size + 1] = -1 - remaining
out[size + 2] = reset
out[size + 3] = retry
size = size + 3
end
end
end
if written == 1 then
call('SET', writes[1], writes[2], 'PXAT', expire_at[1])
elseif written > 0 then
call('MSET', unpack(writes))
for slot = 1, written do call('PEXPIREAT', writes[2 * slot - 1], expire_at[slot]) end
end
if quota > 9007199254740928 or window > 9007199254740928 then
for i = 2, #out do
local number = out[i]
if type(number) == 'number' and math.abs(number) > 9007199254740928 then out[i] = string.format('%.0f', number) end
end
end
return out`,
}

export const consumeLeakyBucket: Script = {
  name: 'consume_leaky_bucket',
  sha1: 'e75f4e70c24335a39e5ca9b258d352684f72f3a1',
  source: `local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local shaped = true
local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local call, pack, read = redis.call, struct.pack, struct.unpack
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
if valid_until and now > valid_until then return { now } end
local spending = ARGV[3] == '1'
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
local out, size = { now }, 1
local quota, window, burst = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local one_cost = #ARGV < 8 and tonumber(ARGV[7] or 1)
local some_blocked = call('EXISTS', KEYS[1]) > 0
local count = #KEYS
local values = call('MGET', unpack(KEYS, 2))
local missing
for i = 2, count do
if not values[i - 1] then
missing = missing or {}
missing[#missing + 1] = KEYS[i]
end
end
local strange = missing and call('EXISTS', unpack(missing)) > 0
local writes, expire_at, written, place = {}, {}, 0, {}
for i = 2, count do
local key = KEYS[i]
local slot = place[key]
local value = slot and writes[2 * slot] or values[i - 1]
local failure, at
local x, y = 0, 0
if value then
if #value == 24 then at, x, y = read('<ddd', value) end
if not at or at % 1 ~= 0 or at > 9007199254740992 or at < -9007199254740992 or not (x >= 0 and y >= 0) then
failure = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
elseif strange then
local kind = call('TYPE', key).ok
if kind ~= 'none' then failure = 'WRONGTYPE the key holds a ' .. kind end
end
if failure then
size = size + 1
out[size] = failure
else
local cost = one_cost or tonumber(ARGV[5 + i])
local blocked_until = some_blocked and tonumber(call('ZSCORE', KEYS[1], key) or 0) or 0
local blocked = blocked_until > now
local retry, remaining, reset, delay, next_at, next_x, next_y
repeat
local most, found = 0, 0
if quota > 0 then
most = burst
if at then
found = x
if now > at then found = x - quota * (now - at) end
if found < 0 then found = 0 end
end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
local over = found - (most - cost) * window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, quota)
else
after = found + cost * window
next_at, next_x, next_y = now, after, quota
if shaped then delay = ceil_div(found, quota) end
end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
remaining = left / window
remaining = remaining - remaining % 1
if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
reset = after / quota
reset = reset - reset % 1
if reset * quota > after then reset = reset - 1 end
if reset * quota < after then reset = reset + 1 end
end
local again = blocked and retry == 0 and cost > 0
if again then cost = 0 end
until not again
if spending then
if next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
if not slot then
written = written + 1
slot = written
place[key] = slot
writes[2 * slot - 1] = key
end
writes[2 * slot] = pack('<ddd', next_at, next_x, next_y)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
expire_at[slot] = text
end
end
if retry == 0 and not blocked then
out[size + 1] = remaining
out[size + 2] = reset
size = size + 2
if shaped then
size = size + 1
out[size] = delay
end
else
if blocked and retry >= 0 then retry = -2 - math.max(retry, blocked_until - now) end
out[size + 1] = -1 - remaining
out[size + 2] = reset
out[size + 3] = retry
size = size + 3
end
end
end
if written == 1 then
call('SET', writes[1], writes[2], 'PXAT', expire_at[1])
elseif written > 0 then
call('MSET', unpack(writes))
for slot = 1, written do call('PEXPIREAT', writes[2 * slot - 1], expire_at[slot]) end
end
if quota > 9007199254740928 or window > 9007199254740928 then
for i = 2, #out do
local number = out[i]
if type(number) == 'number' and math.abs(number) > 9007199254740928 then out[i] = string.format('%.0f', number) end
end
end
return out`,
}

export const consumeSlidingCounter: Script = {
  name: 'consume_sliding_counter',
  sha1: '82c3f4cbb8a24ace32f32068f1ef0c390a06e44f',
  source: `local function roll_cells(quota, window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local shaped = false
local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local call, pack, read = redis.call, struct.pack, struct.unpack
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
if valid_until and now > valid_until then return { now } end
local spending = ARGV[3] == '1'
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
local out, size = { now }, 1
local quota, window, burst = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local one_cost = #ARGV < 8 and tonumber(ARGV[7] or 1)
local some_blocked = call('EXISTS', KEYS[1]) > 0
local count = #KEYS
local values = call('MGET', unpack(KEYS, 2))
local missing
for i = 2, count do
if not values[i - 1] then
missing = missing or {}
missing[#missing + 1] = KEYS[i]
end
end
local strange = missing and call('EXISTS', unpack(missing)) > 0
local writes, expire_at, written, place = {}, {}, 0, {}
for i = 2, count do
local key = KEYS[i]
local slot = place[key]
local value = slot and writes[2 * slot] or values[i - 1]
local failure, at
local x, y = 0, 0
if value then
if #value == 24 then at, x, y = read('<ddd', value) end
if not at or at % 1 ~= 0 or at > 9007199254740992 or at < -9007199254740992 or not (x >= 0 and y >= 0) then
failure = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
elseif strange then
local kind = call('TYPE', key).ok
if kind ~= 'none' then failure = 'WRONGTYPE the key holds a ' .. kind end
end
if failure then
size = size + 1
out[size] = failure
else
local cost = one_cost or tonumber(ARGV[5 + i])
local blocked_until = some_blocked and tonumber(call('ZSCORE', KEYS[1], key) or 0) or 0
local blocked = blocked_until > now
local retry, remaining, reset, delay, next_at, next_x, next_y
repeat
local cell, inside, before = roll_cells(quota, window, now, at, x, y)
local overlap = cell - now + window
local room = quota - cost - inside
retry, reset, delay = 0, 0, 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
remaining = quota - inside - ceil_div(before * overlap, window)
if remaining < 0 then remaining = 0 end
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
if retry == 0 and cost > 0 or at and at > cell then
next_at, next_x, next_y = cell, inside, before
else
next_at, next_x, next_y = at, x, y
end
local again = blocked and retry == 0 and cost > 0
if again then cost = 0 end
until not again
if spending then
if next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
if not slot then
written = written + 1
slot = written
place[key] = slot
writes[2 * slot - 1] = key
end
writes[2 * slot] = pack('<ddd', next_at, next_x, next_y)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
expire_at[slot] = text
end
end
if retry == 0 and not blocked then
out[size + 1] = remaining
out[size + 2] = reset
size = size + 2
if shaped then
size = size + 1
out[size] = delay
end
else
if blocked and retry >= 0 then retry = -2 - math.max(retry, blocked_until - now) end
out[size + 1] = -1 - remaining
out[size + 2] = reset
out[size + 3] = retry
size = size + 3
end
end
end
if written == 1 then
call('SET', writes[1], writes[2], 'PXAT', expire_at[1])
elseif written > 0 then
call('MSET', unpack(writes))
for slot = 1, written do call('PEXPIREAT', writes[2 * slot - 1], expire_at[slot]) end
end
if quota > 9007199254740928 or window > 9007199254740928 then
for i = 2, #out do
local number = out[i]
if type(number) == 'number' and math.abs(number) > 9007199254740928 then out[i] = string.format('%.0f', number) end
end
end
return out`,
}

export const consumeSlidingWindow: Script = {
  name: 'consume_sliding_window',
  sha1: 'c13e994b711d3f8483ba143a0cde5247480a08c1',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
return struct.unpack(log_formats[#entry], entry)
end
local function log_pack(at, total)
if total < 65536 then return struct.pack('>I6I2', at, total) end
if total < 16777216 then return struct.pack('>I6I3', at, total) end
if total < 4294967296 then return struct.pack('>I6I4', at, total) end
return struct.pack('>I6I7', at, total)
end
local function log_save(key, log, expire_at)
if log.rubbish then redis.call('DEL', key) end
local entry = log_pack(log.newest, log.total)
if not log.stored then
redis.call('RPUSH', key, log_pack(0, log.gone), entry)
elseif log.stored == log.newest then
redis.call('LSET', key, '-1', entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('PEXPIREAT', key, expire_at)
end
local rare
local function rarely()
if not rare then
local function log_search(key, low, high, test)
local found_at, found_total
while low < high do
local middle = math.floor((low + high) / 2)
local at, total = log_unpack(redis.call('LINDEX', key, middle))
if test(at, total) then
high, found_at, found_total = middle, at, total
else
low = middle + 1
end
end
return high, found_at, found_total
end
local function log_open(key, window, now, writable)
local head = redis.pcall('LRANGE', key, '0', '1')
if head.err then return head end
if not head[1] then return { gone = 0, total = 0, booked = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local booked, gone = log_unpack(head[1])
local log = { gone = gone, booked = booked, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
local last = redis.call('LINDEX', key, '-1')
if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' } end
log.newest, log.total = log_unpack(last)
if log.newest > now and booked < log.newest then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, '0', from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('LSET', key, '0', log_pack(0, gone))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, booked = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, '-1')
if booked > now then redis.call('LSET', key, '0', log_pack(booked, before)) end
log.first = 1
end
end
return log
end
local function log_rebase(key, log)
local gone = log.gone
if log.stored then
local entries = redis.call('LRANGE', key, '0', '-1')
redis.call('DEL', key)
redis.call('RPUSH', key, log_pack(log.booked, 0))
for i = 2, #entries do
local at, total = log_unpack(entries[i])
redis.call('RPUSH', key, log_pack(at, total - gone))
end
end
log.gone, log.total = 0, log.total - gone
if log.oldest then log.oldest_total = log.oldest_total - gone end
end
local function sliding_window(limit, now, cost, key, log)
local spent = log.total - log.gone
local reset = log.newest and log.newest - now + limit.window or 0
if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, limit.window, 0 end
if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
local enough = log.total - (limit.quota - cost)
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
rare = { open = log_open, rebase = log_rebase, measure = sliding_window }
end
return rare
end
local call, pack, read = redis.call, struct.pack, struct.unpack
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
if valid_until and now > valid_until then return { now } end
local spending = ARGV[3] == '1'
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
local out, size = { now }, 1
local quota, window, burst = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local one_cost = #ARGV < 8 and tonumber(ARGV[7] or 1)
local some_blocked = call('EXISTS', KEYS[1]) > 0
local limit, shaped = { quota = quota, window = window }, false
local logs, changed = {}, {}
for i = 2, #KEYS do
local key = KEYS[i]
local log = logs[key]
if not log then
local head = redis.pcall('LRANGE', key, '0', '2')
local second = head[2]
if second then
local last = head[3] and call('LINDEX', key, '-1') or second
local head_format, second_format, last_format = log_formats[#head[1]], log_formats[#second], log_formats[#last]
if head_format and second_format and last_format then
local booked, gone = read(head_format, head[1])
local oldest, oldest_total = read(second_format, second)
local newest, total = read(last_format, last)
if newest <= now and now - oldest < window then
log = {
booked = booked,
gone = gone,
oldest = oldest,
oldest_total = oldest_total,
newest = newest,
total = total,
stored = newest,
expire_at = false,
}
end
end
elseif not head[1] and not head.err then
log = {
booked = 0,
gone = 0,
oldest = false,
oldest_total = 0,
newest = false,
total = 0,
stored = false,
expire_at = false,
}
end
if not log then log = rarely().open(key, window, now, spending) end
logs[key] = log
end
if log.err then
size = size + 1
out[size] = log.err
else
local cost = one_cost or tonumber(ARGV[5 + i])
local blocked_until = some_blocked and tonumber(call('ZSCORE', KEYS[1], key) or 0) or 0
local blocked = blocked_until > now
local retry, remaining, reset, delay = 0, quota - (log.total - log.gone) - cost, window, 0
if remaining < 0 or cost == 0 or blocked then
local measure = rarely().measure
retry, remaining, reset = measure(limit, now, cost, key, log)
if blocked and retry == 0 then retry, remaining, reset = measure(limit, now, 0, key, log) end
elseif spending then
if log.total + cost > 9007199254740991 then rarely().rebase(key, log) end
log.total = log.total + cost
log.newest = now
if not log.oldest or log.oldest == now then log.oldest, log.oldest_total = now, log.total end
if not log.expire_at then changed[#changed + 1] = key end
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
log.expire_at = text
end
if retry == 0 and not blocked then
out[size + 1] = remaining
out[size + 2] = reset
size = size + 2
if shaped then
size = size + 1
out[size] = delay
end
else
if blocked and retry >= 0 then retry = -2 - math.max(retry, blocked_until - now) end
out[size + 1] = -1 - remaining
out[size + 2] = reset
out[size + 3] = retry
size = size + 3
end
end
end
for i = 1, #changed do
local key = changed[i]
log_save(key, logs[key], logs[key].expire_at)
end
if quota > 9007199254740928 or window > 9007199254740928 then
for i = 2, #out do
local number = out[i]
if type(number) == 'number' and math.abs(number) > 9007199254740928 then out[i] = string.format('%.0f', number) end
end
end
return out`,
}

export const consumeTokenBucket: Script = {
  name: 'consume_token_bucket',
  sha1: '239223940d7f542fbbe8fe72400b230cfcc8a7c2',
  source: `local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local shaped = false
local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local call, pack, read = redis.call, struct.pack, struct.unpack
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
if valid_until and now > valid_until then return { now } end
local spending = ARGV[3] == '1'
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
local out, size = { now }, 1
local quota, window, burst = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local one_cost = #ARGV < 8 and tonumber(ARGV[7] or 1)
local some_blocked = call('EXISTS', KEYS[1]) > 0
local count = #KEYS
local values = call('MGET', unpack(KEYS, 2))
local missing
for i = 2, count do
if not values[i - 1] then
missing = missing or {}
missing[#missing + 1] = KEYS[i]
end
end
local strange = missing and call('EXISTS', unpack(missing)) > 0
local writes, expire_at, written, place = {}, {}, 0, {}
for i = 2, count do
local key = KEYS[i]
local slot = place[key]
local value = slot and writes[2 * slot] or values[i - 1]
local failure, at
local x, y = 0, 0
if value then
if #value == 24 then at, x, y = read('<ddd', value) end
if not at or at % 1 ~= 0 or at > 9007199254740992 or at < -9007199254740992 or not (x >= 0 and y >= 0) then
failure = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
elseif strange then
local kind = call('TYPE', key).ok
if kind ~= 'none' then failure = 'WRONGTYPE the key holds a ' .. kind end
end
if failure then
size = size + 1
out[size] = failure
else
local cost = one_cost or tonumber(ARGV[5 + i])
local blocked_until = some_blocked and tonumber(call('ZSCORE', KEYS[1], key) or 0) or 0
local blocked = blocked_until > now
local retry, remaining, reset, delay, next_at, next_x, next_y
repeat
local most, found = 0, 0
if quota > 0 then
most = burst
if at then
found = x
if now > at then found = x - quota * (now - at) end
if found < 0 then found = 0 end
end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
local over = found - (most - cost) * window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, quota)
else
after = found + cost * window
next_at, next_x, next_y = now, after, quota
if shaped then delay = ceil_div(found, quota) end
end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
remaining = left / window
remaining = remaining - remaining % 1
if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
reset = after / quota
reset = reset - reset % 1
if reset * quota > after then reset = reset - 1 end
if reset * quota < after then reset = reset + 1 end
end
local again = blocked and retry == 0 and cost > 0
if again then cost = 0 end
until not again
if spending then
if next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
if not slot then
written = written + 1
slot = written
place[key] = slot
writes[2 * slot - 1] = key
end
writes[2 * slot] = pack('<ddd', next_at, next_x, next_y)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
expire_at[slot] = text
end
end
if retry == 0 and not blocked then
out[size + 1] = remaining
out[size + 2] = reset
size = size + 2
if shaped then
size = size + 1
out[size] = delay
end
else
if blocked and retry >= 0 then retry = -2 - math.max(retry, blocked_until - now) end
out[size + 1] = -1 - remaining
out[size + 2] = reset
out[size + 3] = retry
size = size + 3
end
end
end
if written == 1 then
call('SET', writes[1], writes[2], 'PXAT', expire_at[1])
elseif written > 0 then
call('MSET', unpack(writes))
for slot = 1, written do call('PEXPIREAT', writes[2 * slot - 1], expire_at[slot]) end
end
if quota > 9007199254740928 or window > 9007199254740928 then
for i = 2, #out do
local number = out[i]
if type(number) == 'number' and math.abs(number) > 9007199254740928 then out[i] = string.format('%.0f', number) end
end
end
return out`,
}

export const forgetSent: Script = {
  name: 'forget_sent',
  sha1: 'ddcccb0b64f00e68a7f16bedd4d68bacb4b45411',
  source: `redis.call('DEL', KEYS[1])`,
}

export const queueCancel: Script = {
  name: 'queue_cancel',
  sha1: 'd18fc86fff7b84ea030b35b215701ef39e5ff9ad',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function once(sent, number, floor, act, keep)
local newest = redis.call('LINDEX', sent, '-1')
if newest and struct.unpack('>I7', newest) >= number then
for _, entry in ipairs(redis.call('LRANGE', sent, '0', '-1')) do
if struct.unpack('>I7', entry) == number then return cmsgpack.unpack(string.sub(entry, 8)) end
end
end
local reply, changed, life = act()
if not changed then return reply end
if newest then
for _ = 1, 16 do
local oldest = redis.call('LINDEX', sent, '0')
if not oldest or struct.unpack('>I7', oldest) >= floor then break end
redis.call('LPOP', sent)
end
end
redis.call('RPUSH', sent, struct.pack('>I7', number) .. cmsgpack.pack(reply))
life = math.min(life or keep or 60000, 60000)
if redis.call('PTTL', sent) < life then redis.call('PEXPIRE', sent, life) end
return reply
end
local function queue_keys()
return {
delayed = KEYS[1],
unacked = KEYS[2],
messages = KEYS[3],
tries = KEYS[4],
ttls = KEYS[5],
dead = KEYS[6],
graves = KEYS[7],
wake = KEYS[8],
cleared = KEYS[9],
}
end
local function queue_record(record)
return {
seq = string.sub(record, 1, 20),
priority = tonumber(string.sub(record, 21, 21)),
ttl = tonumber(string.sub(record, 22, 36)),
max = tonumber(string.sub(record, 37, 43)),
}
end
local function queue_drop(keys, id, text)
local record = queue_record(text)
local attempt = redis.call('HGET', keys.tries, id)
if redis.call('ZREM', keys.delayed, record.seq .. (attempt or '0000000') .. id) == 0 then return false end
redis.call('HDEL', keys.messages, id)
if attempt then redis.call('HDEL', keys.tries, id) end
if record.ttl > 0 then redis.call('ZREM', keys.ttls, id) end
return true
end
local keys = queue_keys()
local sent = KEYS[10]
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local clock = ARGV[3]
local id = ARGV[4]
local reply = once(sent, number, floor, function()
local text = redis.call('HGET', keys.messages, id)
if not text then return { 0 }, false end
local ttl = queue_record(text).ttl
local outlived = ttl > 0 and ttl <= now_ms(clock)
if not queue_drop(keys, id, text) then return { 0 }, false end
return { outlived and 0 or 1 }, true
end)
return reply[1]`,
}

export const queueClear: Script = {
  name: 'queue_clear',
  sha1: 'f97c8c255eb89aca8ddb0b5f97c30f8f929334d1',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function queue_keys()
return {
delayed = KEYS[1],
unacked = KEYS[2],
messages = KEYS[3],
tries = KEYS[4],
ttls = KEYS[5],
dead = KEYS[6],
graves = KEYS[7],
wake = KEYS[8],
cleared = KEYS[9],
}
end
local keys = queue_keys()
local clock = ARGV[1]
local now = now_ms(clock)
local last = redis.call('ZRANGE', keys.unacked, '-1', '-1', 'WITHSCORES')
local paused = redis.call('ZSCORE', keys.delayed, 'paused')
redis.call('UNLINK', unpack(KEYS, 1, 8))
if paused then redis.call('ZADD', keys.delayed, '-1', 'paused') end
if last[2] and tonumber(last[2]) > now then
redis.call('SET', keys.cleared, '1', 'PX', string.format('%.0f', tonumber(last[2]) - now))
end`,
}

export const queueDead: Script = {
  name: 'queue_dead',
  sha1: '8a5d9f539d475d2d7365ce3a8b3ef39f8f388634',
  source: `local function queue_keys()
return {
delayed = KEYS[1],
unacked = KEYS[2],
messages = KEYS[3],
tries = KEYS[4],
ttls = KEYS[5],
dead = KEYS[6],
graves = KEYS[7],
wake = KEYS[8],
cleared = KEYS[9],
}
end
local keys = queue_keys()
local from = tonumber(ARGV[1])
local count = tonumber(ARGV[2])
local rows = redis.call('ZRANGE', keys.dead, from, from + count - 1, 'WITHSCORES')
if #rows == 0 then return {} end
local ids = {}
for i = 1, #rows, 2 do
ids[#ids + 1] = rows[i]
end
local graves = redis.call('HMGET', keys.graves, unpack(ids))
local reply = {}
for i, id in ipairs(ids) do
if graves[i] then
local attempts, reason, text = unpack(cmsgpack.unpack(graves[i]))
reply[#reply + 1] = { id, text, attempts, reason, tonumber(rows[2 * i]) }
end
end
return reply`,
}

export const queuePause: Script = {
  name: 'queue_pause',
  sha1: '94c2d2cc7b528fd0aeaac9850ffd80ab3a7b4d7c',
  source: `local function queue_keys()
return {
delayed = KEYS[1],
unacked = KEYS[2],
messages = KEYS[3],
tries = KEYS[4],
ttls = KEYS[5],
dead = KEYS[6],
graves = KEYS[7],
wake = KEYS[8],
cleared = KEYS[9],
}
end
local function queue_wake_one(keys)
redis.call('ZADD', keys.wake, '0', '1')
redis.call('PEXPIRE', keys.wake, '60000')
end
local keys = queue_keys()
local hold = ARGV[1] == '1'
if hold then
redis.call('ZADD', keys.delayed, '-1', 'paused')
elseif redis.call('ZREM', keys.delayed, 'paused') == 1 then
queue_wake_one(keys)
end`,
}

export const queuePush: Script = {
  name: 'queue_push',
  sha1: 'b223fd32ee30b8b73f03e5b1fda8a520902897f0',
  source: `local function once(sent, number, floor, act, keep)
local newest = redis.call('LINDEX', sent, '-1')
if newest and struct.unpack('>I7', newest) >= number then
for _, entry in ipairs(redis.call('LRANGE', sent, '0', '-1')) do
if struct.unpack('>I7', entry) == number then return cmsgpack.unpack(string.sub(entry, 8)) end
end
end
local reply, changed, life = act()
if not changed then return reply end
if newest then
for _ = 1, 16 do
local oldest = redis.call('LINDEX', sent, '0')
if not oldest or struct.unpack('>I7', oldest) >= floor then break end
redis.call('LPOP', sent)
end
end
redis.call('RPUSH', sent, struct.pack('>I7', number) .. cmsgpack.pack(reply))
life = math.min(life or keep or 60000, 60000)
if redis.call('PTTL', sent) < life then redis.call('PEXPIRE', sent, life) end
return reply
end
local function queue_keys()
return {
delayed = KEYS[1],
unacked = KEYS[2],
messages = KEYS[3],
tries = KEYS[4],
ttls = KEYS[5],
dead = KEYS[6],
graves = KEYS[7],
wake = KEYS[8],
cleared = KEYS[9],
}
end
local QUEUE_BAND = 17592186044416
local function queue_score(priority, due)
return string.format('%.0f', (9 - priority) * QUEUE_BAND + math.min(due, QUEUE_BAND - 1))
end
local function queue_record(record)
return {
seq = string.sub(record, 1, 20),
priority = tonumber(string.sub(record, 21, 21)),
ttl = tonumber(string.sub(record, 22, 36)),
max = tonumber(string.sub(record, 37, 43)),
}
end
local function queue_drop(keys, id, text)
local record = queue_record(text)
local attempt = redis.call('HGET', keys.tries, id)
if redis.call('ZREM', keys.delayed, record.seq .. (attempt or '0000000') .. id) == 0 then return false end
redis.call('HDEL', keys.messages, id)
if attempt then redis.call('HDEL', keys.tries, id) end
if record.ttl > 0 then redis.call('ZREM', keys.ttls, id) end
return true
end
local function queue_purge(keys, now, most)
local ids = redis.call('ZRANGE', keys.ttls, '-inf', now, 'BYSCORE', 'LIMIT', '0', most)
for _, id in ipairs(ids) do
local text = redis.call('HGET', keys.messages, id)
if not (text and queue_drop(keys, id, text)) then redis.call('ZREM', keys.ttls, id) end
end
return #ids == most
end
local function queue_wake_one(keys)
redis.call('ZADD', keys.wake, '0', '1')
redis.call('PEXPIRE', keys.wake, '60000')
end
local keys = queue_keys()
local sent = KEYS[10]
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local clock = ARGV[3]
local max_size = tonumber(ARGV[4])
local FIELDS = 7
local count = (#ARGV - 4) / FIELDS
local function push()
local time = redis.call('TIME')
local now = clock ~= '' and tonumber(clock) or time[1] * 1000 + math.floor(time[2] / 1000)
local stamp = string.format('%s%06d', time[1], tonumber(time[2]))
local ids = {}
for i = 1, count do
ids[i] = ARGV[(i - 1) * FIELDS + 5]
end
local known = redis.call('HMGET', keys.messages, unpack(ids))
local room = math.huge
if max_size >= 0 then
room = max_size - redis.call('HLEN', keys.messages)
if room < count then
queue_purge(keys, now, 200)
room = max_size - redis.call('HLEN', keys.messages)
end
end
local reply, seen = {}, {}
local records, places, ttls, first = {}, {}, {}, {}
for i, id in ipairs(ids) do
local at = (i - 1) * FIELDS + 5
local text = known[i]
if text and not seen[id] then
local ttl = queue_record(text).ttl
if ttl > 0 and ttl <= now and redis.call('HEXISTS', keys.messages, id) == 0 then text = false end
if text and ttl > 0 and ttl <= now and queue_drop(keys, id, text) then
text = false
room = room + 1
end
end
if text or seen[id] or room < 1 then
reply[i] = 0
else
seen[id] = true
room = room - 1
reply[i] = 1
local delay = tonumber(ARGV[at + 1])
local due = delay >= 0 and now + delay or math.max(now, tonumber(ARGV[at + 2]))
local priority = tonumber(ARGV[at + 3])
local ttl = tonumber(ARGV[at + 4])
local gone = ttl >= 0 and math.min(now + ttl, 999999999999999) or 0
local seq = string.format('%s%04d', stamp, i)
records[#records + 1] = id
records[#records + 1] = string.format('%s%d%015.0f%s', seq, priority, gone, ARGV[at + 5]) .. ARGV[at + 6]
places[#places + 1] = queue_score(priority, due)
places[#places + 1] = seq .. '0000000' .. id
if gone > 0 then
ttls[#ttls + 1] = string.format('%.0f', gone)
ttls[#ttls + 1] = id
end
if not first[priority] or due < first[priority] then first[priority] = due end
end
end
if #records == 0 then return reply, false end
local news = false
for priority, due in pairs(first) do
local score = queue_score(priority, due)
local before = redis.call('ZRANGE', keys.delayed, queue_score(priority, 0), score, 'BYSCORE', 'LIMIT', '0', '1')
if #before == 0 then news = true end
end
redis.call('HSET', keys.messages, unpack(records))
redis.call('ZADD', keys.delayed, unpack(places))
if #ttls > 0 then redis.call('ZADD', keys.ttls, unpack(ttls)) end
if news then queue_wake_one(keys) end
return reply, true
end
return once(sent, number, floor, push)`,
}

export const queueRedrive: Script = {
  name: 'queue_redrive',
  sha1: 'e040311668ff609cbafb10245fe1712f5c823a01',
  source: `local function once(sent, number, floor, act, keep)
local newest = redis.call('LINDEX', sent, '-1')
if newest and struct.unpack('>I7', newest) >= number then
for _, entry in ipairs(redis.call('LRANGE', sent, '0', '-1')) do
if struct.unpack('>I7', entry) == number then return cmsgpack.unpack(string.sub(entry, 8)) end
end
end
local reply, changed, life = act()
if not changed then return reply end
if newest then
for _ = 1, 16 do
local oldest = redis.call('LINDEX', sent, '0')
if not oldest or struct.unpack('>I7', oldest) >= floor then break end
redis.call('LPOP', sent)
end
end
redis.call('RPUSH', sent, struct.pack('>I7', number) .. cmsgpack.pack(reply))
life = math.min(life or keep or 60000, 60000)
if redis.call('PTTL', sent) < life then redis.call('PEXPIRE', sent, life) end
return reply
end
local function queue_keys()
return {
delayed = KEYS[1],
unacked = KEYS[2],
messages = KEYS[3],
tries = KEYS[4],
ttls = KEYS[5],
dead = KEYS[6],
graves = KEYS[7],
wake = KEYS[8],
cleared = KEYS[9],
}
end
local QUEUE_BAND = 17592186044416
local function queue_score(priority, due)
return string.format('%.0f', (9 - priority) * QUEUE_BAND + math.min(due, QUEUE_BAND - 1))
end
local function queue_record(record)
return {
seq = string.sub(record, 1, 20),
priority = tonumber(string.sub(record, 21, 21)),
ttl = tonumber(string.sub(record, 22, 36)),
max = tonumber(string.sub(record, 37, 43)),
}
end
local function queue_wake_one(keys)
redis.call('ZADD', keys.wake, '0', '1')
redis.call('PEXPIRE', keys.wake, '60000')
end
local keys = queue_keys()
local sent = KEYS[10]
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local clock = ARGV[3]
local from = tonumber(ARGV[4])
local count = tonumber(ARGV[5])
local given = {}
for i = 6, #ARGV do
given[#given + 1] = ARGV[i]
end
return once(sent, number, floor, function()
local time = redis.call('TIME')
local now = clock ~= '' and tonumber(clock) or time[1] * 1000 + math.floor(time[2] / 1000)
local ids = #given > 0 and given or redis.call('ZRANGE', keys.dead, from, from + count - 1)
local back = 0
for i, id in ipairs(ids) do
local grave = redis.call('HGET', keys.graves, id)
if grave and redis.call('HEXISTS', keys.messages, id) == 0 then
local text = cmsgpack.unpack(grave)[3]
local seq = string.format('%s%06d%04d', time[1], tonumber(time[2]), i)
local rest = string.sub(text, 37)
local record = queue_record(text)
redis.call('HSET', keys.messages, id, string.format('%s%d%015d', seq, record.priority, 0) .. rest)
redis.call('ZADD', keys.delayed, queue_score(record.priority, now), seq .. '0000000' .. id)
redis.call('HDEL', keys.graves, id)
redis.call('ZREM', keys.dead, id)
back = back + 1
end
end
if back > 0 then queue_wake_one(keys) end
return { back, #ids }, back > 0
end)`,
}

export const queueReschedule: Script = {
  name: 'queue_reschedule',
  sha1: 'be87a1900a2d8759f4324e398c2dabe2dcad3dd5',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function queue_keys()
return {
delayed = KEYS[1],
unacked = KEYS[2],
messages = KEYS[3],
tries = KEYS[4],
ttls = KEYS[5],
dead = KEYS[6],
graves = KEYS[7],
wake = KEYS[8],
cleared = KEYS[9],
}
end
local QUEUE_BAND = 17592186044416
local function queue_score(priority, due)
return string.format('%.0f', (9 - priority) * QUEUE_BAND + math.min(due, QUEUE_BAND - 1))
end
local function queue_record(record)
return {
seq = string.sub(record, 1, 20),
priority = tonumber(string.sub(record, 21, 21)),
ttl = tonumber(string.sub(record, 22, 36)),
max = tonumber(string.sub(record, 37, 43)),
}
end
local function queue_wake_one(keys)
redis.call('ZADD', keys.wake, '0', '1')
redis.call('PEXPIRE', keys.wake, '60000')
end
local keys = queue_keys()
local clock = ARGV[1]
local id = ARGV[2]
local delay = tonumber(ARGV[3])
local now = now_ms(clock)
local text = redis.call('HGET', keys.messages, id)
if not text then return 0 end
local record = queue_record(text)
if record.ttl > 0 and record.ttl <= now then return 0 end
local member = record.seq .. (redis.call('HGET', keys.tries, id) or '0000000') .. id
local score = redis.call('ZSCORE', keys.delayed, member)
if not score or tonumber(score) % QUEUE_BAND <= now then return 0 end
redis.call('ZADD', keys.delayed, queue_score(record.priority, now + delay), member)
local first = redis.call('ZRANGE', keys.delayed, queue_score(record.priority, 0), '+inf', 'BYSCORE', 'LIMIT', '0', '1')
if first[1] == member then queue_wake_one(keys) end
return 1`,
}

export const queueStats: Script = {
  name: 'queue_stats',
  sha1: 'f72e24c055da7996569f037b64cbfe9946c053c5',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function queue_keys()
return {
delayed = KEYS[1],
unacked = KEYS[2],
messages = KEYS[3],
tries = KEYS[4],
ttls = KEYS[5],
dead = KEYS[6],
graves = KEYS[7],
wake = KEYS[8],
cleared = KEYS[9],
}
end
local QUEUE_BAND = 17592186044416
local function queue_score(priority, due)
return string.format('%.0f', (9 - priority) * QUEUE_BAND + math.min(due, QUEUE_BAND - 1))
end
local function queue_record(record)
return {
seq = string.sub(record, 1, 20),
priority = tonumber(string.sub(record, 21, 21)),
ttl = tonumber(string.sub(record, 22, 36)),
max = tonumber(string.sub(record, 37, 43)),
}
end
local function queue_drop(keys, id, text)
local record = queue_record(text)
local attempt = redis.call('HGET', keys.tries, id)
if redis.call('ZREM', keys.delayed, record.seq .. (attempt or '0000000') .. id) == 0 then return false end
redis.call('HDEL', keys.messages, id)
if attempt then redis.call('HDEL', keys.tries, id) end
if record.ttl > 0 then redis.call('ZREM', keys.ttls, id) end
return true
end
local function queue_purge(keys, now, most)
local ids = redis.call('ZRANGE', keys.ttls, '-inf', now, 'BYSCORE', 'LIMIT', '0', most)
for _, id in ipairs(ids) do
local text = redis.call('HGET', keys.messages, id)
if not (text and queue_drop(keys, id, text)) then redis.call('ZREM', keys.ttls, id) end
end
return #ids == most
end
local function queue_bury(keys, now, id, text, attempts, reason)
redis.call('HSET', keys.graves, id, cmsgpack.pack({ attempts, reason, text }))
redis.call('ZADD', keys.dead, now, id)
redis.call('HDEL', keys.messages, id)
redis.call('HDEL', keys.tries, id)
if queue_record(text).ttl > 0 then redis.call('ZREM', keys.ttls, id) end
end
local function queue_expire(keys, now, most)
local rows = redis.call('ZRANGE', keys.unacked, '-inf', now, 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
if #rows == 0 then return end
local members, ids = {}, {}
for i = 1, #rows, 2 do
members[#members + 1] = rows[i]
ids[#ids + 1] = string.sub(rows[i], 28)
end
redis.call('ZREM', keys.unacked, unpack(members))
local texts = redis.call('HMGET', keys.messages, unpack(ids))
local places, tries = {}, {}
for i, member in ipairs(members) do
local text, id = texts[i], ids[i]
if text then
local attempt = string.sub(member, 21, 27)
local record = queue_record(text)
if tonumber(attempt) >= record.max then
queue_bury(keys, now, id, text, tonumber(attempt), 'not acknowledged in time')
else
places[#places + 1] = queue_score(record.priority, tonumber(rows[2 * i]))
places[#places + 1] = member
tries[#tries + 1] = id
tries[#tries + 1] = attempt
end
end
end
if #places == 0 then return end
redis.call('ZADD', keys.delayed, unpack(places))
redis.call('HSET', keys.tries, unpack(tries))
end
local keys = queue_keys()
local clock = ARGV[1]
local now = now_ms(clock)
local more = queue_purge(keys, now, 200)
queue_expire(keys, now, 100)
local ready, delayed, next_due = 0, 0, -1
for priority = 0, 9 do
local from, to = queue_score(priority, now), queue_score(priority, QUEUE_BAND)
ready = ready + redis.call('ZCOUNT', keys.delayed, queue_score(priority, 0), from)
local later = redis.call('ZCOUNT', keys.delayed, '(' .. from, to)
if later > 0 then
local after = '(' .. from
local row = redis.call('ZRANGE', keys.delayed, after, to, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
local due = tonumber(row[2]) % QUEUE_BAND
if next_due < 0 or due < next_due then next_due = due end
end
delayed = delayed + later
end
local lost = redis.call('ZCOUNT', keys.unacked, '-inf', now)
local unacked = redis.call('ZCARD', keys.unacked)
return { ready, delayed, unacked, redis.call('ZCARD', keys.dead), next_due, (more or lost > 0) and 1 or 0 }`,
}

export const queueTurn: Script = {
  name: 'queue_turn',
  sha1: 'e72f82b207549cc59f6533f795dcff5a9009da0f',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function queue_keys()
return {
delayed = KEYS[1],
unacked = KEYS[2],
messages = KEYS[3],
tries = KEYS[4],
ttls = KEYS[5],
dead = KEYS[6],
graves = KEYS[7],
wake = KEYS[8],
cleared = KEYS[9],
}
end
local QUEUE_BAND = 17592186044416
local function queue_score(priority, due)
return string.format('%.0f', (9 - priority) * QUEUE_BAND + math.min(due, QUEUE_BAND - 1))
end
local function queue_record(record)
return {
seq = string.sub(record, 1, 20),
priority = tonumber(string.sub(record, 21, 21)),
ttl = tonumber(string.sub(record, 22, 36)),
max = tonumber(string.sub(record, 37, 43)),
}
end
local function queue_bury(keys, now, id, text, attempts, reason)
redis.call('HSET', keys.graves, id, cmsgpack.pack({ attempts, reason, text }))
redis.call('ZADD', keys.dead, now, id)
redis.call('HDEL', keys.messages, id)
redis.call('HDEL', keys.tries, id)
if queue_record(text).ttl > 0 then redis.call('ZREM', keys.ttls, id) end
end
local function queue_expire(keys, now, most)
local rows = redis.call('ZRANGE', keys.unacked, '-inf', now, 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
if #rows == 0 then return end
local members, ids = {}, {}
for i = 1, #rows, 2 do
members[#members + 1] = rows[i]
ids[#ids + 1] = string.sub(rows[i], 28)
end
redis.call('ZREM', keys.unacked, unpack(members))
local texts = redis.call('HMGET', keys.messages, unpack(ids))
local places, tries = {}, {}
for i, member in ipairs(members) do
local text, id = texts[i], ids[i]
if text then
local attempt = string.sub(member, 21, 27)
local record = queue_record(text)
if tonumber(attempt) >= record.max then
queue_bury(keys, now, id, text, tonumber(attempt), 'not acknowledged in time')
else
places[#places + 1] = queue_score(record.priority, tonumber(rows[2 * i]))
places[#places + 1] = member
tries[#tries + 1] = id
tries[#tries + 1] = attempt
end
end
end
if #places == 0 then return end
redis.call('ZADD', keys.delayed, unpack(places))
redis.call('HSET', keys.tries, unpack(tries))
end
local function queue_wake_one(keys)
redis.call('ZADD', keys.wake, '0', '1')
redis.call('PEXPIRE', keys.wake, '60000')
end
local keys = queue_keys()
local clock = ARGV[1]
local look = ARGV[2] == 'look'
local sweep = ARGV[2] == 'sweep'
local settlements = tonumber(ARGV[3])
local TOGETHER = 3
local AHEAD = 8
local SAFETY = 20000
local now = now_ms(clock)
local function settled_before()
return redis.call('EXISTS', keys.cleared) == 0 and 1 or 0
end
local settled = {}
local acks = {}
for i = 1, settlements do
local at = 4 + (i - 1) * 4
local what, member, visible, detail = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), ARGV[at + 3]
local id = string.sub(member, 28)
if now >= visible then
settled[i] = 0
elseif what == 'ack' then
acks[#acks + 1] = { i = i, member = member, has_ttl = detail == '1' }
elseif what == 'extend' then
settled[i] = 0
if redis.call('ZSCORE', keys.unacked, member) then
settled[i] = now + tonumber(detail)
redis.call('ZADD', keys.unacked, settled[i], member)
end
elseif redis.call('ZREM', keys.unacked, member) == 0 then
settled[i] = settled_before()
else
settled[i] = 1
local text = redis.call('HGET', keys.messages, id)
local attempt = string.sub(member, 21, 27)
if what == 'reject' then
queue_bury(keys, now, id, text, tonumber(attempt), detail)
elseif text then
local due = tonumber(detail)
if what == 'nack' then
due = now + due
else
attempt = string.format('%07d', tonumber(attempt) - 1)
member = string.sub(member, 1, 20) .. attempt .. id
end
local priority = queue_record(text).priority
redis.call('ZADD', keys.delayed, queue_score(priority, due), member)
local first = redis.call('ZRANGE', keys.delayed, queue_score(priority, 0), '+inf', 'BYSCORE', 'LIMIT', '0', '1')
if first[1] == member then queue_wake_one(keys) end
if attempt == '0000000' then
redis.call('HDEL', keys.tries, id)
else
redis.call('HSET', keys.tries, id, attempt)
end
end
end
end
if #acks > 0 then
local members, ids = {}, {}
for k, ack in ipairs(acks) do
members[k] = ack.member
end
local all = redis.call('ZREM', keys.unacked, unpack(members)) == #acks
local again, mortal = {}, {}
for _, ack in ipairs(acks) do
local id = string.sub(ack.member, 28)
local text = not all and redis.call('HGET', keys.messages, id)
if all or (text and string.sub(text, 1, 20) == string.sub(ack.member, 1, 20)) then
settled[ack.i] = 1
ids[#ids + 1] = id
if ack.has_ttl then mortal[#mortal + 1] = id end
if tonumber(string.sub(ack.member, 21, 27)) > 1 then again[#again + 1] = id end
else
settled[ack.i] = settled_before()
end
end
if #ids > 0 then redis.call('HDEL', keys.messages, unpack(ids)) end
if #again > 0 then redis.call('HDEL', keys.tries, unpack(again)) end
if #mortal > 0 then redis.call('ZREM', keys.ttls, unpack(mortal)) end
if sweep and redis.call('HLEN', keys.messages) == 0 then redis.call('DEL', keys.wake) end
end
local next_end = -1
if look then
queue_expire(keys, now, 100)
local row = redis.call('ZRANGE', keys.unacked, '0', '0', 'WITHSCORES')
if row[2] then next_end = tonumber(row[2]) end
end
local wants = 3 + settlements * 4
local wanted = #ARGV - wants
if wanted == 0 and not look then return { settled, now, -1, next_end, {} } end
local members, ids, dues = {}, {}, {}
local first, last
local paused = false
local from = '-inf'
while from do
local most = wanted - #members + AHEAD
local rows = redis.call('ZRANGE', keys.delayed, from, '+inf', 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
from = nil
local other = nil
for i = 1, #rows, 2 do
local score = tonumber(rows[i + 1])
if score < 0 then
paused = true
break
end
local band = math.floor(score / QUEUE_BAND)
local due = score - band * QUEUE_BAND
if other and band ~= other then break end
if due > now then
if not other then
other = band
if band < 9 then from = string.format('%.0f', (band + 1) * QUEUE_BAND) end
if first and first <= due then break end
first, last = due, due
elseif due <= first + TOGETHER then
last = due
else
break
end
elseif #members < wanted then
members[#members + 1] = rows[i]
ids[#ids + 1] = string.sub(rows[i], 28)
dues[#dues + 1] = due
else
first, last = now, now
from = nil
break
end
end
end
if look and not paused and not last then redis.call('DEL', keys.wake) end
if #members == 0 then return { settled, now, last or -1, next_end, {} } end
local texts = redis.call('HMGET', keys.messages, unpack(ids))
redis.call('ZREM', keys.delayed, unpack(members))
local taken, places, lost = {}, {}, {}
local shortest = math.huge
for i, member in ipairs(members) do
local text = texts[i]
local ttl = text and tonumber(string.sub(text, 22, 36))
if text and (ttl == 0 or ttl > now) then
local attempt = tonumber(string.sub(member, 21, 27)) + 1
local receipt = string.format('%s%07d', string.sub(member, 1, 20), attempt) .. ids[i]
local visibility = tonumber(ARGV[wants + #taken / 4 + 1])
if visibility < shortest then shortest = visibility end
places[#places + 1] = now + visibility
places[#places + 1] = receipt
taken[#taken + 1] = receipt
taken[#taken + 1] = dues[i]
taken[#taken + 1] = now + visibility
taken[#taken + 1] = text
else
lost[#lost + 1] = ids[i]
end
end
if #lost > 0 then
redis.call('HDEL', keys.messages, unpack(lost))
redis.call('HDEL', keys.tries, unpack(lost))
redis.call('ZREM', keys.ttls, unpack(lost))
last = now
end
if #places > 0 then
if shortest < SAFETY then
local row = redis.call('ZRANGE', keys.unacked, '0', '0', 'WITHSCORES')
if not row[2] or tonumber(row[2]) > now + shortest then queue_wake_one(keys) end
end
redis.call('ZADD', keys.unacked, unpack(places))
end
return { settled, now, last or -1, next_end, taken }`,
}

export const queueWake: Script = {
  name: 'queue_wake',
  sha1: 'a62df79fa3cf2e18cd74ea8d96672cb6f06b7b44',
  source: `local function queue_keys()
return {
delayed = KEYS[1],
unacked = KEYS[2],
messages = KEYS[3],
tries = KEYS[4],
ttls = KEYS[5],
dead = KEYS[6],
graves = KEYS[7],
wake = KEYS[8],
cleared = KEYS[9],
}
end
local function queue_wake_one(keys)
redis.call('ZADD', keys.wake, '0', '1')
redis.call('PEXPIRE', keys.wake, '60000')
end
queue_wake_one(queue_keys())`,
}

export const rateAcquire: Script = {
  name: 'rate_acquire',
  sha1: '4542d2dadc573430323160cab50cf2a8b736d250',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function once(sent, number, floor, act, keep)
local newest = redis.call('LINDEX', sent, '-1')
if newest and struct.unpack('>I7', newest) >= number then
for _, entry in ipairs(redis.call('LRANGE', sent, '0', '-1')) do
if struct.unpack('>I7', entry) == number then return cmsgpack.unpack(string.sub(entry, 8)) end
end
end
local reply, changed, life = act()
if not changed then return reply end
if newest then
for _ = 1, 16 do
local oldest = redis.call('LINDEX', sent, '0')
if not oldest or struct.unpack('>I7', oldest) >= floor then break end
redis.call('LPOP', sent)
end
end
redis.call('RPUSH', sent, struct.pack('>I7', number) .. cmsgpack.pack(reply))
life = math.min(life or keep or 60000, 60000)
if redis.call('PTTL', sent) < life then redis.call('PEXPIRE', sent, life) end
return reply
end
local function rate_open(clock, now)
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'mode', 'keepAlive', 'endsAt', 'idleAt', 'epoch')
local rate, interval = tonumber(config[1]), tonumber(config[2])
local keep_alive, ends_at, idle_at = tonumber(config[4]), tonumber(config[5]), tonumber(config[6])
if not rate or not interval then return nil end
if (ends_at and now >= ends_at) or (idle_at and now >= idle_at) then return nil end
local server_ahead, padding, slack = 0, math.min(interval, 1000), 0
if clock ~= '' then
local time = redis.call('TIME')
server_ahead = time[1] * 1000 + math.floor(time[2] / 1000) - now
padding, slack = 5000, 5000
end
local fleeting = config[3] == 'per-client'
local function text(at) return string.format('%.0f', at + server_ahead) end
local function expires_at(reset)
local at = now + reset + padding
if keep_alive then at = math.min(at, now + math.max(keep_alive, reset) + slack) end
if ends_at then at = math.min(at, ends_at + slack) end
return text(at)
end
return {
limit = { algorithm = 'sliding-window', quota = rate, window = interval, burst = rate },
log = fleeting and KEYS[5] or KEYS[3],
line = fleeting and KEYS[6] or KEYS[4],
fleeting = fleeting,
keep_alive = keep_alive or -1,
ends_at = ends_at,
epoch = tonumber(config[7]) or 0,
expires_at = expires_at,
register = function(client, reset)
redis.call('ZADD', KEYS[2], now + reset, client)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - padding)
local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
redis.call('PEXPIREAT', KEYS[2], expires_at(math.max(reset, tonumber(last[2]) - now)))
end,
use = function(reset)
if keep_alive then
local idle = now + math.max(keep_alive, reset)
if fleeting then idle = math.max(idle, idle_at or 0) end
if ends_at then idle = math.min(idle, ends_at) end
redis.call('HSET', KEYS[1], 'idleAt', string.format('%.0f', idle))
redis.call('PEXPIREAT', KEYS[1], text(idle + slack))
end
return math.min(reset + padding, keep_alive or 60000)
end,
}
end
local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local function load_rows(keys, at, x, y, errors)
local count = #keys
if count == 0 then return end
local values = redis.call('MGET', unpack(keys))
local missing, places = {}, {}
for i = 1, count do
local value = values[i]
if not value then
missing[#missing + 1] = keys[i]
places[#places + 1] = i
x[i], y[i] = 0, 0
elseif #value ~= 24 then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
else
at[i], x[i], y[i] = struct.unpack('<ddd', value)
if math.floor(at[i]) ~= at[i] or math.abs(at[i]) > 9007199254740992 or not (x[i] >= 0 and y[i] >= 0) then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
end
end
if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
for i, key in ipairs(missing) do
local kind = redis.call('TYPE', key).ok
if kind ~= 'none' then errors[places[i]] = 'WRONGTYPE the key holds a ' .. kind end
end
end
local function save_rows(slots, keys, at, x, y, expire_at)
if #slots == 0 then return end
local pairs_of = {}
for i = 1, #slots do
local slot = slots[i]
pairs_of[2 * i - 1] = keys[slot]
pairs_of[2 * i] = struct.pack('<ddd', at[slot], x[slot], y[slot])
end
redis.call('MSET', unpack(pairs_of))
for i = 1, #slots do
local slot = slots[i]
redis.call('PEXPIREAT', keys[slot], expire_at[slot])
end
end
local function fixed_window(limit, now, cost, at, x)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
next_at, next_x, next_y = at, x, 0
retry, delay = 0, 0
if at then
if at > now then
next_at = now
elseif at - now + window <= 0 then
next_at, next_x = nil, 0
end
end
if cost > quota then
retry = -1
elseif cost > 0 and next_x + cost > quota then
retry = next_at - now + window
elseif cost > 0 then
next_at = next_at or now
next_x = next_x + cost
end
remaining = next_x < quota and quota - next_x or 0
reset = next_at and next_at - now + window or 0
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function bucket(limit, now, cost, at, x, y)
local quota, window, burst, shaped = limit.quota, limit.window, limit.burst, limit.algorithm == 'leaky-bucket'
local retry, remaining, reset, delay, next_at, next_x, next_y
local most, found = 0, 0
if quota > 0 then
most = burst
if at then
found = x
if now > at then found = x - quota * (now - at) end
if found < 0 then found = 0 end
end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
local over = found - (most - cost) * window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, quota)
else
after = found + cost * window
next_at, next_x, next_y = now, after, quota
if shaped then delay = ceil_div(found, quota) end
end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
remaining = left / window
remaining = remaining - remaining % 1
if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
reset = after / quota
reset = reset - reset % 1
if reset * quota > after then reset = reset - 1 end
if reset * quota < after then reset = reset + 1 end
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function roll_cells(quota, window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, x, y)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
local cell, inside, before = roll_cells(quota, window, now, at, x, y)
local overlap = cell - now + window
local room = quota - cost - inside
retry, reset, delay = 0, 0, 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
remaining = quota - inside - ceil_div(before * overlap, window)
if remaining < 0 then remaining = 0 end
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
if retry == 0 and cost > 0 or at and at > cell then
next_at, next_x, next_y = cell, inside, before
else
next_at, next_x, next_y = at, x, y
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), limit.quota
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), limit.quota
end
local function log_pack(at, total)
if total < 65536 then return struct.pack('>I6I2', at, total) end
if total < 16777216 then return struct.pack('>I6I3', at, total) end
if total < 4294967296 then return struct.pack('>I6I4', at, total) end
return struct.pack('>I6I7', at, total)
end
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
return struct.unpack(log_formats[#entry], entry)
end
local function log_search(key, low, high, test)
local found_at, found_total
while low < high do
local middle = math.floor((low + high) / 2)
local at, total = log_unpack(redis.call('LINDEX', key, middle))
if test(at, total) then
high, found_at, found_total = middle, at, total
else
low = middle + 1
end
end
return high, found_at, found_total
end
local function log_open(key, window, now, writable)
local head = redis.pcall('LRANGE', key, '0', '1')
if head.err then return head end
if not head[1] then return { gone = 0, total = 0, booked = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local booked, gone = log_unpack(head[1])
local log = { gone = gone, booked = booked, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
local last = redis.call('LINDEX', key, '-1')
if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' } end
log.newest, log.total = log_unpack(last)
if log.newest > now and booked < log.newest then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, '0', from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('LSET', key, '0', log_pack(0, gone))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, booked = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, '-1')
if booked > now then redis.call('LSET', key, '0', log_pack(booked, before)) end
log.first = 1
end
end
return log
end
local function log_refund(key, log, cost, expire_at)
if not log.newest or cost == 0 then return end
local total = math.max(log.gone, log.total - cost)
if total == log.gone then
redis.call('DEL', key)
return
end
local index, at, reached = log_search(key, 1, redis.call('LLEN', key), function(_, sum) return sum >= total end)
redis.call('LTRIM', key, '0', index)
if reached > total then redis.call('LSET', key, '-1', log_pack(at, total)) end
redis.call('PEXPIREAT', key, expire_at)
end
local function log_rebase(key, log)
local gone = log.gone
if log.stored then
local entries = redis.call('LRANGE', key, '0', '-1')
redis.call('DEL', key)
redis.call('RPUSH', key, log_pack(log.booked, 0))
for i = 2, #entries do
local at, total = log_unpack(entries[i])
redis.call('RPUSH', key, log_pack(at, total - gone))
end
end
log.gone, log.total = 0, log.total - gone
if log.oldest then log.oldest_total = log.oldest_total - gone end
end
local function log_book(key, log, now, at, cost, expire_at)
if log.rubbish then redis.call('DEL', key) end
log.rubbish = nil
if log.total + cost > 9007199254740991 then log_rebase(key, log) end
log.total = math.min(log.total + cost, 9007199254740991)
local entry = log_pack(at, log.total)
local booked = at > now and at or 0
if not log.stored then
redis.call('RPUSH', key, log_pack(booked, log.gone), entry)
else
if log.stored == at then
redis.call('LSET', key, '-1', entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('LSET', key, '0', log_pack(booked, log.gone))
end
if not log.oldest then log.oldest, log.first = at, 1 end
if log.oldest == at then log.oldest_total = log.total end
log.stored, log.newest, log.booked = at, at, booked
redis.call('PEXPIREAT', key, expire_at)
end
local function sliding_window(limit, now, cost, key, log)
local spent = log.total - log.gone
local reset = log.newest and log.newest - now + limit.window or 0
if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, limit.window, 0 end
if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
local enough = log.total - (limit.quota - cost)
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function expiry(clock, now)
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
return function(reset)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
return text
end
end
local function standing(limit, key, now, clock, expires_at)
expires_at = expires_at or expiry(clock, now)
local measure_row = row_measures[limit.algorithm]
if measure_row then
local at, x, y, errors = {}, {}, {}, {}
load_rows({ key }, at, x, y, errors)
local function charge(cost) at[1], x[1], y[1] = charge_row(limit, now, cost, at[1], x[1], y[1]) end
return {
err = errors[1],
measure = function(cost)
local retry, remaining, reset, delay = measure_row(limit, now, cost, at[1], x[1], y[1])
if retry > 0 and limit.algorithm == 'leaky-bucket' then
delay = ceil_div((limit.burst - cost) * limit.window, limit.quota)
end
return retry < 0 and -1 or retry + delay, remaining, reset
end,
book = charge,
charge = charge,
refund = function(cost)
local new_at, new_x, new_y = refund_row(limit, now, cost, at[1], x[1], y[1])
if new_at then at[1], x[1], y[1] = new_at, new_x, new_y end
end,
save = function()
if not at[1] then return end
local _, _, reset = measure_row(limit, now, 0, at[1], x[1], y[1])
save_rows({ 1 }, { key }, at, x, y, { expires_at(reset) })
end,
}
end
local log = log_open(key, limit.window, now, true)
return {
err = log.err,
measure = function(cost) return sliding_window(limit, now, cost, key, log) end,
book = function(cost, wait) log_book(key, log, now, now + wait, cost, expires_at(wait + limit.window)) end,
charge = function(cost)
local at = math.max(now, log.newest or now)
log_book(key, log, now, at, cost, expires_at(at - now + limit.window))
end,
refund = function(cost)
if not log.newest then return end
log_refund(key, log, cost, expires_at(math.max(0, log.newest - now) + limit.window))
log = log_open(key, limit.window, now, true)
end,
save = function() end,
}
end
local function waiting_now(list, now)
local waiting = {}
local gone = 0
for _, packed in ipairs(redis.call('LRANGE', list, '0', '-1')) do
local turn, cost = struct.unpack('>I6I7', packed)
if turn <= now then
gone = gone + 1
else
waiting[#waiting + 1] = { turn = turn, cost = cost, id = string.sub(packed, 14) }
end
end
if gone > 0 then redis.call('LTRIM', list, gone, '-1') end
return waiting
end
local function rate_state(rate, now, clock)
local state = standing(rate.limit, rate.log, now, clock, rate.expires_at)
if state.err then return state end
local _, _, reset = state.measure(0)
if reset == 0 then
for _, waiter in ipairs(waiting_now(rate.line, now)) do state.book(waiter.cost, waiter.turn - now) end
end
return state
end
local function waiter_pack(turn, cost, id)
return struct.pack('>I6I7', turn, cost) .. id
end
local number, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = ARGV[3]
local now = now_ms(clock)
local client = ARGV[4]
local permits = tonumber(ARGV[5])
local patience = tonumber(ARGV[6])
local id = ARGV[7]
return once(KEYS[7], number, floor, function()
local rate = rate_open(clock, now)
if not rate then return { -2, 0, 0 } end
local quota, epoch = rate.limit.quota, rate.epoch
if permits > quota then return { -1, quota, epoch } end
local state = rate_state(rate, now, clock)
if state.err then return redis.error_reply(state.err) end
local wait, _, reset = state.measure(permits)
if permits == 0 or (patience >= 0 and wait > patience) then
_, _, reset = state.measure(0)
rate.use(reset)
return { wait, quota, epoch }
end
if rate.ends_at and now + wait >= rate.ends_at then return { -2, 0, 0 } end
for _ = 1, 16 do
local first = redis.call('LINDEX', rate.line, '0')
if not first or struct.unpack('>I6', first) > now then break end
redis.call('LPOP', rate.line)
end
if rate.fleeting then rate.register(client, wait + rate.limit.window) end
state.book(permits, wait)
if wait > 0 then
redis.call('RPUSH', rate.line, waiter_pack(now + wait, permits, id))
redis.call('PEXPIREAT', rate.line, rate.expires_at(wait))
end
return { wait, quota, epoch }, true, rate.use(wait + rate.limit.window)
end)`,
}

export const rateEnd: Script = {
  name: 'rate_end',
  sha1: 'b2cba8c82e22fe828ec1382ed1a3620f3bf3f43a',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function once(sent, number, floor, act, keep)
local newest = redis.call('LINDEX', sent, '-1')
if newest and struct.unpack('>I7', newest) >= number then
for _, entry in ipairs(redis.call('LRANGE', sent, '0', '-1')) do
if struct.unpack('>I7', entry) == number then return cmsgpack.unpack(string.sub(entry, 8)) end
end
end
local reply, changed, life = act()
if not changed then return reply end
if newest then
for _ = 1, 16 do
local oldest = redis.call('LINDEX', sent, '0')
if not oldest or struct.unpack('>I7', oldest) >= floor then break end
redis.call('LPOP', sent)
end
end
redis.call('RPUSH', sent, struct.pack('>I7', number) .. cmsgpack.pack(reply))
life = math.min(life or keep or 60000, 60000)
if redis.call('PTTL', sent) < life then redis.call('PEXPIRE', sent, life) end
return reply
end
local function rate_open(clock, now)
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'mode', 'keepAlive', 'endsAt', 'idleAt', 'epoch')
local rate, interval = tonumber(config[1]), tonumber(config[2])
local keep_alive, ends_at, idle_at = tonumber(config[4]), tonumber(config[5]), tonumber(config[6])
if not rate or not interval then return nil end
if (ends_at and now >= ends_at) or (idle_at and now >= idle_at) then return nil end
local server_ahead, padding, slack = 0, math.min(interval, 1000), 0
if clock ~= '' then
local time = redis.call('TIME')
server_ahead = time[1] * 1000 + math.floor(time[2] / 1000) - now
padding, slack = 5000, 5000
end
local fleeting = config[3] == 'per-client'
local function text(at) return string.format('%.0f', at + server_ahead) end
local function expires_at(reset)
local at = now + reset + padding
if keep_alive then at = math.min(at, now + math.max(keep_alive, reset) + slack) end
if ends_at then at = math.min(at, ends_at + slack) end
return text(at)
end
return {
limit = { algorithm = 'sliding-window', quota = rate, window = interval, burst = rate },
log = fleeting and KEYS[5] or KEYS[3],
line = fleeting and KEYS[6] or KEYS[4],
fleeting = fleeting,
keep_alive = keep_alive or -1,
ends_at = ends_at,
epoch = tonumber(config[7]) or 0,
expires_at = expires_at,
register = function(client, reset)
redis.call('ZADD', KEYS[2], now + reset, client)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - padding)
local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
redis.call('PEXPIREAT', KEYS[2], expires_at(math.max(reset, tonumber(last[2]) - now)))
end,
use = function(reset)
if keep_alive then
local idle = now + math.max(keep_alive, reset)
if fleeting then idle = math.max(idle, idle_at or 0) end
if ends_at then idle = math.min(idle, ends_at) end
redis.call('HSET', KEYS[1], 'idleAt', string.format('%.0f', idle))
redis.call('PEXPIREAT', KEYS[1], text(idle + slack))
end
return math.min(reset + padding, keep_alive or 60000)
end,
}
end
local function rate_parties(first)
local parties, known = { { log = KEYS[3], line = KEYS[4] } }, {}
for i = first, #ARGV do
local at = 5 + (i - first) * 2
known[ARGV[i]] = true
parties[#parties + 1] = { log = KEYS[at], line = KEYS[at + 1], client = ARGV[i] }
end
local strangers = {}
for _, client in ipairs(redis.call('ZRANGE', KEYS[2], '0', '-1')) do
if not known[client] then strangers[#strangers + 1] = client end
end
if #strangers > 0 then return nil, strangers end
return parties
end
local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local function load_rows(keys, at, x, y, errors)
local count = #keys
if count == 0 then return end
local values = redis.call('MGET', unpack(keys))
local missing, places = {}, {}
for i = 1, count do
local value = values[i]
if not value then
missing[#missing + 1] = keys[i]
places[#places + 1] = i
x[i], y[i] = 0, 0
elseif #value ~= 24 then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
else
at[i], x[i], y[i] = struct.unpack('<ddd', value)
if math.floor(at[i]) ~= at[i] or math.abs(at[i]) > 9007199254740992 or not (x[i] >= 0 and y[i] >= 0) then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
end
end
if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
for i, key in ipairs(missing) do
local kind = redis.call('TYPE', key).ok
if kind ~= 'none' then errors[places[i]] = 'WRONGTYPE the key holds a ' .. kind end
end
end
local function save_rows(slots, keys, at, x, y, expire_at)
if #slots == 0 then return end
local pairs_of = {}
for i = 1, #slots do
local slot = slots[i]
pairs_of[2 * i - 1] = keys[slot]
pairs_of[2 * i] = struct.pack('<ddd', at[slot], x[slot], y[slot])
end
redis.call('MSET', unpack(pairs_of))
for i = 1, #slots do
local slot = slots[i]
redis.call('PEXPIREAT', keys[slot], expire_at[slot])
end
end
local function fixed_window(limit, now, cost, at, x)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
next_at, next_x, next_y = at, x, 0
retry, delay = 0, 0
if at then
if at > now then
next_at = now
elseif at - now + window <= 0 then
next_at, next_x = nil, 0
end
end
if cost > quota then
retry = -1
elseif cost > 0 and next_x + cost > quota then
retry = next_at - now + window
elseif cost > 0 then
next_at = next_at or now
next_x = next_x + cost
end
remaining = next_x < quota and quota - next_x or 0
reset = next_at and next_at - now + window or 0
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function bucket(limit, now, cost, at, x, y)
local quota, window, burst, shaped = limit.quota, limit.window, limit.burst, limit.algorithm == 'leaky-bucket'
local retry, remaining, reset, delay, next_at, next_x, next_y
local most, found = 0, 0
if quota > 0 then
most = burst
if at then
found = x
if now > at then found = x - quota * (now - at) end
if found < 0 then found = 0 end
end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
local over = found - (most - cost) * window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, quota)
else
after = found + cost * window
next_at, next_x, next_y = now, after, quota
if shaped then delay = ceil_div(found, quota) end
end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
remaining = left / window
remaining = remaining - remaining % 1
if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
reset = after / quota
reset = reset - reset % 1
if reset * quota > after then reset = reset - 1 end
if reset * quota < after then reset = reset + 1 end
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function roll_cells(quota, window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, x, y)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
local cell, inside, before = roll_cells(quota, window, now, at, x, y)
local overlap = cell - now + window
local room = quota - cost - inside
retry, reset, delay = 0, 0, 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
remaining = quota - inside - ceil_div(before * overlap, window)
if remaining < 0 then remaining = 0 end
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
if retry == 0 and cost > 0 or at and at > cell then
next_at, next_x, next_y = cell, inside, before
else
next_at, next_x, next_y = at, x, y
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), limit.quota
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), limit.quota
end
local function log_pack(at, total)
if total < 65536 then return struct.pack('>I6I2', at, total) end
if total < 16777216 then return struct.pack('>I6I3', at, total) end
if total < 4294967296 then return struct.pack('>I6I4', at, total) end
return struct.pack('>I6I7', at, total)
end
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
return struct.unpack(log_formats[#entry], entry)
end
local function log_search(key, low, high, test)
local found_at, found_total
while low < high do
local middle = math.floor((low + high) / 2)
local at, total = log_unpack(redis.call('LINDEX', key, middle))
if test(at, total) then
high, found_at, found_total = middle, at, total
else
low = middle + 1
end
end
return high, found_at, found_total
end
local function log_open(key, window, now, writable)
local head = redis.pcall('LRANGE', key, '0', '1')
if head.err then return head end
if not head[1] then return { gone = 0, total = 0, booked = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local booked, gone = log_unpack(head[1])
local log = { gone = gone, booked = booked, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
local last = redis.call('LINDEX', key, '-1')
if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' } end
log.newest, log.total = log_unpack(last)
if log.newest > now and booked < log.newest then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, '0', from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('LSET', key, '0', log_pack(0, gone))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, booked = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, '-1')
if booked > now then redis.call('LSET', key, '0', log_pack(booked, before)) end
log.first = 1
end
end
return log
end
local function log_refund(key, log, cost, expire_at)
if not log.newest or cost == 0 then return end
local total = math.max(log.gone, log.total - cost)
if total == log.gone then
redis.call('DEL', key)
return
end
local index, at, reached = log_search(key, 1, redis.call('LLEN', key), function(_, sum) return sum >= total end)
redis.call('LTRIM', key, '0', index)
if reached > total then redis.call('LSET', key, '-1', log_pack(at, total)) end
redis.call('PEXPIREAT', key, expire_at)
end
local function log_rebase(key, log)
local gone = log.gone
if log.stored then
local entries = redis.call('LRANGE', key, '0', '-1')
redis.call('DEL', key)
redis.call('RPUSH', key, log_pack(log.booked, 0))
for i = 2, #entries do
local at, total = log_unpack(entries[i])
redis.call('RPUSH', key, log_pack(at, total - gone))
end
end
log.gone, log.total = 0, log.total - gone
if log.oldest then log.oldest_total = log.oldest_total - gone end
end
local function log_book(key, log, now, at, cost, expire_at)
if log.rubbish then redis.call('DEL', key) end
log.rubbish = nil
if log.total + cost > 9007199254740991 then log_rebase(key, log) end
log.total = math.min(log.total + cost, 9007199254740991)
local entry = log_pack(at, log.total)
local booked = at > now and at or 0
if not log.stored then
redis.call('RPUSH', key, log_pack(booked, log.gone), entry)
else
if log.stored == at then
redis.call('LSET', key, '-1', entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('LSET', key, '0', log_pack(booked, log.gone))
end
if not log.oldest then log.oldest, log.first = at, 1 end
if log.oldest == at then log.oldest_total = log.total end
log.stored, log.newest, log.booked = at, at, booked
redis.call('PEXPIREAT', key, expire_at)
end
local function sliding_window(limit, now, cost, key, log)
local spent = log.total - log.gone
local reset = log.newest and log.newest - now + limit.window or 0
if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, limit.window, 0 end
if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
local enough = log.total - (limit.quota - cost)
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function expiry(clock, now)
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
return function(reset)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
return text
end
end
local function standing(limit, key, now, clock, expires_at)
expires_at = expires_at or expiry(clock, now)
local measure_row = row_measures[limit.algorithm]
if measure_row then
local at, x, y, errors = {}, {}, {}, {}
load_rows({ key }, at, x, y, errors)
local function charge(cost) at[1], x[1], y[1] = charge_row(limit, now, cost, at[1], x[1], y[1]) end
return {
err = errors[1],
measure = function(cost)
local retry, remaining, reset, delay = measure_row(limit, now, cost, at[1], x[1], y[1])
if retry > 0 and limit.algorithm == 'leaky-bucket' then
delay = ceil_div((limit.burst - cost) * limit.window, limit.quota)
end
return retry < 0 and -1 or retry + delay, remaining, reset
end,
book = charge,
charge = charge,
refund = function(cost)
local new_at, new_x, new_y = refund_row(limit, now, cost, at[1], x[1], y[1])
if new_at then at[1], x[1], y[1] = new_at, new_x, new_y end
end,
save = function()
if not at[1] then return end
local _, _, reset = measure_row(limit, now, 0, at[1], x[1], y[1])
save_rows({ 1 }, { key }, at, x, y, { expires_at(reset) })
end,
}
end
local log = log_open(key, limit.window, now, true)
return {
err = log.err,
measure = function(cost) return sliding_window(limit, now, cost, key, log) end,
book = function(cost, wait) log_book(key, log, now, now + wait, cost, expires_at(wait + limit.window)) end,
charge = function(cost)
local at = math.max(now, log.newest or now)
log_book(key, log, now, at, cost, expires_at(at - now + limit.window))
end,
refund = function(cost)
if not log.newest then return end
log_refund(key, log, cost, expires_at(math.max(0, log.newest - now) + limit.window))
log = log_open(key, limit.window, now, true)
end,
save = function() end,
}
end
local function waiting_now(list, now)
local waiting = {}
local gone = 0
for _, packed in ipairs(redis.call('LRANGE', list, '0', '-1')) do
local turn, cost = struct.unpack('>I6I7', packed)
if turn <= now then
gone = gone + 1
else
waiting[#waiting + 1] = { turn = turn, cost = cost, id = string.sub(packed, 14) }
end
end
if gone > 0 then redis.call('LTRIM', list, gone, '-1') end
return waiting
end
local function rate_state(rate, now, clock)
local state = standing(rate.limit, rate.log, now, clock, rate.expires_at)
if state.err then return state end
local _, _, reset = state.measure(0)
if reset == 0 then
for _, waiter in ipairs(waiting_now(rate.line, now)) do state.book(waiter.cost, waiter.turn - now) end
end
return state
end
local function tell_waiters(waiting, first, channel, word_of)
local words, processes = {}, {}
for i = first, #waiting do
local process, number = string.match(waiting[i].id, '^(.*)/(.*)$')
if not words[process] then
words[process] = {}
processes[#processes + 1] = process
end
table.insert(words[process], number .. ':' .. string.format('%.0f', word_of(waiting[i])))
end
for _, process in ipairs(processes) do
local ear = channel .. process
redis.call('PUBLISH', ear, table.concat(words[process], ' '))
end
end
local function waiter_pack(turn, cost, id)
return struct.pack('>I6I7', turn, cost) .. id
end
local function replan(state, list, waiting, first, extra, now, channel, expires_at)
local units = extra
for i = first, #waiting do units = units + waiting[i].cost end
state.refund(units)
redis.call('LTRIM', list, '0', first - 2)
if first == 1 then redis.call('DEL', list) end
for i = first, #waiting do
local waiter = waiting[i]
local wait = state.measure(waiter.cost)
if wait < 0 then wait = waiter.turn - now end
state.book(waiter.cost, wait)
waiter.turn = now + wait
redis.call('RPUSH', list, waiter_pack(waiter.turn, waiter.cost, waiter.id))
end
state.save()
if #waiting > 0 then redis.call('PEXPIREAT', list, expires_at(waiting[#waiting].turn - now)) end
tell_waiters(waiting, first, channel, function(waiter) return waiter.turn - now end)
end
local function rate_plan(rate, parties, now, clock, channel, forget, word_for)
local latest = 0
for _, party in ipairs(parties) do
rate.log, rate.line = party.log, party.line
local length = redis.pcall('LLEN', party.line)
if type(length) == 'table' then redis.call('DEL', party.line) end
local staying, leaving, units = {}, {}, 0
for _, waiter in ipairs(waiting_now(party.line, now)) do
waiter.word = word_for(waiter)
if waiter.word then units = units + waiter.cost end
local list = waiter.word and leaving or staying
list[#list + 1] = waiter
end
if forget then redis.call('DEL', party.log) end
if redis.call('EXISTS', party.log, party.line) > 0 then
local state = rate_state(rate, now, clock)
if state.err then
redis.call('DEL', party.log)
state = rate_state(rate, now, clock)
end
if #staying + #leaving > 0 then
replan(state, party.line, staying, 1, units, now, channel, rate.expires_at)
end
local _, _, reset = state.measure(0)
redis.call('PEXPIREAT', party.log, rate.expires_at(reset))
if rate.fleeting and party.client and reset > 0 then rate.register(party.client, reset) end
latest = math.max(latest, reset)
end
tell_waiters(leaving, 1, channel, function(waiter) return waiter.word end)
end
redis.call('PEXPIREAT', KEYS[2], rate.expires_at(math.max(latest, rate.limit.window)))
return latest
end
local number, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = ARGV[3]
local now = now_ms(clock)
local left = tonumber(ARGV[4])
local channel = ARGV[5]
return once(KEYS[#KEYS], number, floor, function()
local rate = rate_open(clock, now)
if not rate then return { 0 } end
local parties, strangers = rate_parties(6)
if not parties then return strangers end
local sent_away = false
local function word_for(waiter)
if waiter.turn - now < left then return nil end
sent_away = true
return -2
end
if left == 0 then
rate_plan(rate, parties, now, clock, channel, true, word_for)
redis.call('DEL', KEYS[1], KEYS[2], KEYS[#KEYS])
for _, party in ipairs(parties) do redis.call('DEL', party.log, party.line) end
return { 1 }, false
end
redis.call('HSET', KEYS[1], 'endsAt', string.format('%.0f', now + left))
local ending = rate_open(clock, now)
redis.call('PEXPIREAT', KEYS[1], ending.expires_at(left))
ending.use(rate_plan(ending, parties, now, clock, channel, false, word_for))
if sent_away then redis.call('HINCRBY', KEYS[1], 'epoch', '1') end
return { 1 }, true, left
end)`,
}

export const rateLook: Script = {
  name: 'rate_look',
  sha1: 'ae2778583bc4c863a45875595b5dd32f4805fe0d',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function rate_open(clock, now)
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'mode', 'keepAlive', 'endsAt', 'idleAt', 'epoch')
local rate, interval = tonumber(config[1]), tonumber(config[2])
local keep_alive, ends_at, idle_at = tonumber(config[4]), tonumber(config[5]), tonumber(config[6])
if not rate or not interval then return nil end
if (ends_at and now >= ends_at) or (idle_at and now >= idle_at) then return nil end
local server_ahead, padding, slack = 0, math.min(interval, 1000), 0
if clock ~= '' then
local time = redis.call('TIME')
server_ahead = time[1] * 1000 + math.floor(time[2] / 1000) - now
padding, slack = 5000, 5000
end
local fleeting = config[3] == 'per-client'
local function text(at) return string.format('%.0f', at + server_ahead) end
local function expires_at(reset)
local at = now + reset + padding
if keep_alive then at = math.min(at, now + math.max(keep_alive, reset) + slack) end
if ends_at then at = math.min(at, ends_at + slack) end
return text(at)
end
return {
limit = { algorithm = 'sliding-window', quota = rate, window = interval, burst = rate },
log = fleeting and KEYS[5] or KEYS[3],
line = fleeting and KEYS[6] or KEYS[4],
fleeting = fleeting,
keep_alive = keep_alive or -1,
ends_at = ends_at,
epoch = tonumber(config[7]) or 0,
expires_at = expires_at,
register = function(client, reset)
redis.call('ZADD', KEYS[2], now + reset, client)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - padding)
local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
redis.call('PEXPIREAT', KEYS[2], expires_at(math.max(reset, tonumber(last[2]) - now)))
end,
use = function(reset)
if keep_alive then
local idle = now + math.max(keep_alive, reset)
if fleeting then idle = math.max(idle, idle_at or 0) end
if ends_at then idle = math.min(idle, ends_at) end
redis.call('HSET', KEYS[1], 'idleAt', string.format('%.0f', idle))
redis.call('PEXPIREAT', KEYS[1], text(idle + slack))
end
return math.min(reset + padding, keep_alive or 60000)
end,
}
end
local function log_pack(at, total)
if total < 65536 then return struct.pack('>I6I2', at, total) end
if total < 16777216 then return struct.pack('>I6I3', at, total) end
if total < 4294967296 then return struct.pack('>I6I4', at, total) end
return struct.pack('>I6I7', at, total)
end
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
return struct.unpack(log_formats[#entry], entry)
end
local function log_search(key, low, high, test)
local found_at, found_total
while low < high do
local middle = math.floor((low + high) / 2)
local at, total = log_unpack(redis.call('LINDEX', key, middle))
if test(at, total) then
high, found_at, found_total = middle, at, total
else
low = middle + 1
end
end
return high, found_at, found_total
end
local function log_open(key, window, now, writable)
local head = redis.pcall('LRANGE', key, '0', '1')
if head.err then return head end
if not head[1] then return { gone = 0, total = 0, booked = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local booked, gone = log_unpack(head[1])
local log = { gone = gone, booked = booked, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
local last = redis.call('LINDEX', key, '-1')
if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' } end
log.newest, log.total = log_unpack(last)
if log.newest > now and booked < log.newest then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, '0', from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('LSET', key, '0', log_pack(0, gone))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, booked = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, '-1')
if booked > now then redis.call('LSET', key, '0', log_pack(booked, before)) end
log.first = 1
end
end
return log
end
local function sliding_window(limit, now, cost, key, log)
local spent = log.total - log.gone
local reset = log.newest and log.newest - now + limit.window or 0
if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, limit.window, 0 end
if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
local enough = log.total - (limit.quota - cost)
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local clock = ARGV[1]
local now = now_ms(clock)
local rate = rate_open(clock, now)
if not rate then return {} end
local limit = rate.limit
local log = log_open(rate.log, limit.window, now, false)
if log.err then return redis.error_reply(log.err) end
local _, available = sliding_window(limit, now, 0, rate.log, log)
local mode = rate.fleeting and 'per-client' or 'overall'
local reply = { limit.quota, limit.window, mode, rate.keep_alive, available, rate.epoch }
if #ARGV > 1 then
local turns, waiting, booked = {}, 0, 0
for _, packed in ipairs(redis.call('LRANGE', rate.line, '0', '-1')) do
local turn, cost = struct.unpack('>I6I7', packed)
turns[string.sub(packed, 14)] = turn
if turn > now then waiting = waiting + cost end
end
if log.newest and log.newest > now then
local length = redis.call('LLEN', rate.log)
local first = log_search(rate.log, 1, length, function(at) return at > now end)
local _, total = log_unpack(redis.call('LINDEX', rate.log, first - 1))
booked = log.total - total
end
local missing = booked > waiting and -5 or -4
for i = 2, #ARGV do
local turn = turns[ARGV[i]]
reply[#reply + 1] = turn and math.max(0, turn - now) or missing
end
end
return reply`,
}

export const rateRelease: Script = {
  name: 'rate_release',
  sha1: '6bbe46e6626495d6a3e146b4342f994da6d0c452',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function once(sent, number, floor, act, keep)
local newest = redis.call('LINDEX', sent, '-1')
if newest and struct.unpack('>I7', newest) >= number then
for _, entry in ipairs(redis.call('LRANGE', sent, '0', '-1')) do
if struct.unpack('>I7', entry) == number then return cmsgpack.unpack(string.sub(entry, 8)) end
end
end
local reply, changed, life = act()
if not changed then return reply end
if newest then
for _ = 1, 16 do
local oldest = redis.call('LINDEX', sent, '0')
if not oldest or struct.unpack('>I7', oldest) >= floor then break end
redis.call('LPOP', sent)
end
end
redis.call('RPUSH', sent, struct.pack('>I7', number) .. cmsgpack.pack(reply))
life = math.min(life or keep or 60000, 60000)
if redis.call('PTTL', sent) < life then redis.call('PEXPIRE', sent, life) end
return reply
end
local function rate_open(clock, now)
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'mode', 'keepAlive', 'endsAt', 'idleAt', 'epoch')
local rate, interval = tonumber(config[1]), tonumber(config[2])
local keep_alive, ends_at, idle_at = tonumber(config[4]), tonumber(config[5]), tonumber(config[6])
if not rate or not interval then return nil end
if (ends_at and now >= ends_at) or (idle_at and now >= idle_at) then return nil end
local server_ahead, padding, slack = 0, math.min(interval, 1000), 0
if clock ~= '' then
local time = redis.call('TIME')
server_ahead = time[1] * 1000 + math.floor(time[2] / 1000) - now
padding, slack = 5000, 5000
end
local fleeting = config[3] == 'per-client'
local function text(at) return string.format('%.0f', at + server_ahead) end
local function expires_at(reset)
local at = now + reset + padding
if keep_alive then at = math.min(at, now + math.max(keep_alive, reset) + slack) end
if ends_at then at = math.min(at, ends_at + slack) end
return text(at)
end
return {
limit = { algorithm = 'sliding-window', quota = rate, window = interval, burst = rate },
log = fleeting and KEYS[5] or KEYS[3],
line = fleeting and KEYS[6] or KEYS[4],
fleeting = fleeting,
keep_alive = keep_alive or -1,
ends_at = ends_at,
epoch = tonumber(config[7]) or 0,
expires_at = expires_at,
register = function(client, reset)
redis.call('ZADD', KEYS[2], now + reset, client)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - padding)
local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
redis.call('PEXPIREAT', KEYS[2], expires_at(math.max(reset, tonumber(last[2]) - now)))
end,
use = function(reset)
if keep_alive then
local idle = now + math.max(keep_alive, reset)
if fleeting then idle = math.max(idle, idle_at or 0) end
if ends_at then idle = math.min(idle, ends_at) end
redis.call('HSET', KEYS[1], 'idleAt', string.format('%.0f', idle))
redis.call('PEXPIREAT', KEYS[1], text(idle + slack))
end
return math.min(reset + padding, keep_alive or 60000)
end,
}
end
local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local function load_rows(keys, at, x, y, errors)
local count = #keys
if count == 0 then return end
local values = redis.call('MGET', unpack(keys))
local missing, places = {}, {}
for i = 1, count do
local value = values[i]
if not value then
missing[#missing + 1] = keys[i]
places[#places + 1] = i
x[i], y[i] = 0, 0
elseif #value ~= 24 then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
else
at[i], x[i], y[i] = struct.unpack('<ddd', value)
if math.floor(at[i]) ~= at[i] or math.abs(at[i]) > 9007199254740992 or not (x[i] >= 0 and y[i] >= 0) then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
end
end
if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
for i, key in ipairs(missing) do
local kind = redis.call('TYPE', key).ok
if kind ~= 'none' then errors[places[i]] = 'WRONGTYPE the key holds a ' .. kind end
end
end
local function save_rows(slots, keys, at, x, y, expire_at)
if #slots == 0 then return end
local pairs_of = {}
for i = 1, #slots do
local slot = slots[i]
pairs_of[2 * i - 1] = keys[slot]
pairs_of[2 * i] = struct.pack('<ddd', at[slot], x[slot], y[slot])
end
redis.call('MSET', unpack(pairs_of))
for i = 1, #slots do
local slot = slots[i]
redis.call('PEXPIREAT', keys[slot], expire_at[slot])
end
end
local function fixed_window(limit, now, cost, at, x)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
next_at, next_x, next_y = at, x, 0
retry, delay = 0, 0
if at then
if at > now then
next_at = now
elseif at - now + window <= 0 then
next_at, next_x = nil, 0
end
end
if cost > quota then
retry = -1
elseif cost > 0 and next_x + cost > quota then
retry = next_at - now + window
elseif cost > 0 then
next_at = next_at or now
next_x = next_x + cost
end
remaining = next_x < quota and quota - next_x or 0
reset = next_at and next_at - now + window or 0
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function bucket(limit, now, cost, at, x, y)
local quota, window, burst, shaped = limit.quota, limit.window, limit.burst, limit.algorithm == 'leaky-bucket'
local retry, remaining, reset, delay, next_at, next_x, next_y
local most, found = 0, 0
if quota > 0 then
most = burst
if at then
found = x
if now > at then found = x - quota * (now - at) end
if found < 0 then found = 0 end
end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
local over = found - (most - cost) * window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, quota)
else
after = found + cost * window
next_at, next_x, next_y = now, after, quota
if shaped then delay = ceil_div(found, quota) end
end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
remaining = left / window
remaining = remaining - remaining % 1
if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
reset = after / quota
reset = reset - reset % 1
if reset * quota > after then reset = reset - 1 end
if reset * quota < after then reset = reset + 1 end
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function roll_cells(quota, window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, x, y)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
local cell, inside, before = roll_cells(quota, window, now, at, x, y)
local overlap = cell - now + window
local room = quota - cost - inside
retry, reset, delay = 0, 0, 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
remaining = quota - inside - ceil_div(before * overlap, window)
if remaining < 0 then remaining = 0 end
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
if retry == 0 and cost > 0 or at and at > cell then
next_at, next_x, next_y = cell, inside, before
else
next_at, next_x, next_y = at, x, y
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), limit.quota
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), limit.quota
end
local function log_pack(at, total)
if total < 65536 then return struct.pack('>I6I2', at, total) end
if total < 16777216 then return struct.pack('>I6I3', at, total) end
if total < 4294967296 then return struct.pack('>I6I4', at, total) end
return struct.pack('>I6I7', at, total)
end
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
return struct.unpack(log_formats[#entry], entry)
end
local function log_search(key, low, high, test)
local found_at, found_total
while low < high do
local middle = math.floor((low + high) / 2)
local at, total = log_unpack(redis.call('LINDEX', key, middle))
if test(at, total) then
high, found_at, found_total = middle, at, total
else
low = middle + 1
end
end
return high, found_at, found_total
end
local function log_open(key, window, now, writable)
local head = redis.pcall('LRANGE', key, '0', '1')
if head.err then return head end
if not head[1] then return { gone = 0, total = 0, booked = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local booked, gone = log_unpack(head[1])
local log = { gone = gone, booked = booked, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
local last = redis.call('LINDEX', key, '-1')
if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' } end
log.newest, log.total = log_unpack(last)
if log.newest > now and booked < log.newest then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, '0', from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('LSET', key, '0', log_pack(0, gone))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, booked = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, '-1')
if booked > now then redis.call('LSET', key, '0', log_pack(booked, before)) end
log.first = 1
end
end
return log
end
local function log_refund(key, log, cost, expire_at)
if not log.newest or cost == 0 then return end
local total = math.max(log.gone, log.total - cost)
if total == log.gone then
redis.call('DEL', key)
return
end
local index, at, reached = log_search(key, 1, redis.call('LLEN', key), function(_, sum) return sum >= total end)
redis.call('LTRIM', key, '0', index)
if reached > total then redis.call('LSET', key, '-1', log_pack(at, total)) end
redis.call('PEXPIREAT', key, expire_at)
end
local function log_rebase(key, log)
local gone = log.gone
if log.stored then
local entries = redis.call('LRANGE', key, '0', '-1')
redis.call('DEL', key)
redis.call('RPUSH', key, log_pack(log.booked, 0))
for i = 2, #entries do
local at, total = log_unpack(entries[i])
redis.call('RPUSH', key, log_pack(at, total - gone))
end
end
log.gone, log.total = 0, log.total - gone
if log.oldest then log.oldest_total = log.oldest_total - gone end
end
local function log_book(key, log, now, at, cost, expire_at)
if log.rubbish then redis.call('DEL', key) end
log.rubbish = nil
if log.total + cost > 9007199254740991 then log_rebase(key, log) end
log.total = math.min(log.total + cost, 9007199254740991)
local entry = log_pack(at, log.total)
local booked = at > now and at or 0
if not log.stored then
redis.call('RPUSH', key, log_pack(booked, log.gone), entry)
else
if log.stored == at then
redis.call('LSET', key, '-1', entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('LSET', key, '0', log_pack(booked, log.gone))
end
if not log.oldest then log.oldest, log.first = at, 1 end
if log.oldest == at then log.oldest_total = log.total end
log.stored, log.newest, log.booked = at, at, booked
redis.call('PEXPIREAT', key, expire_at)
end
local function sliding_window(limit, now, cost, key, log)
local spent = log.total - log.gone
local reset = log.newest and log.newest - now + limit.window or 0
if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, limit.window, 0 end
if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
local enough = log.total - (limit.quota - cost)
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function expiry(clock, now)
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
return function(reset)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
return text
end
end
local function standing(limit, key, now, clock, expires_at)
expires_at = expires_at or expiry(clock, now)
local measure_row = row_measures[limit.algorithm]
if measure_row then
local at, x, y, errors = {}, {}, {}, {}
load_rows({ key }, at, x, y, errors)
local function charge(cost) at[1], x[1], y[1] = charge_row(limit, now, cost, at[1], x[1], y[1]) end
return {
err = errors[1],
measure = function(cost)
local retry, remaining, reset, delay = measure_row(limit, now, cost, at[1], x[1], y[1])
if retry > 0 and limit.algorithm == 'leaky-bucket' then
delay = ceil_div((limit.burst - cost) * limit.window, limit.quota)
end
return retry < 0 and -1 or retry + delay, remaining, reset
end,
book = charge,
charge = charge,
refund = function(cost)
local new_at, new_x, new_y = refund_row(limit, now, cost, at[1], x[1], y[1])
if new_at then at[1], x[1], y[1] = new_at, new_x, new_y end
end,
save = function()
if not at[1] then return end
local _, _, reset = measure_row(limit, now, 0, at[1], x[1], y[1])
save_rows({ 1 }, { key }, at, x, y, { expires_at(reset) })
end,
}
end
local log = log_open(key, limit.window, now, true)
return {
err = log.err,
measure = function(cost) return sliding_window(limit, now, cost, key, log) end,
book = function(cost, wait) log_book(key, log, now, now + wait, cost, expires_at(wait + limit.window)) end,
charge = function(cost)
local at = math.max(now, log.newest or now)
log_book(key, log, now, at, cost, expires_at(at - now + limit.window))
end,
refund = function(cost)
if not log.newest then return end
log_refund(key, log, cost, expires_at(math.max(0, log.newest - now) + limit.window))
log = log_open(key, limit.window, now, true)
end,
save = function() end,
}
end
local function waiting_now(list, now)
local waiting = {}
local gone = 0
for _, packed in ipairs(redis.call('LRANGE', list, '0', '-1')) do
local turn, cost = struct.unpack('>I6I7', packed)
if turn <= now then
gone = gone + 1
else
waiting[#waiting + 1] = { turn = turn, cost = cost, id = string.sub(packed, 14) }
end
end
if gone > 0 then redis.call('LTRIM', list, gone, '-1') end
return waiting
end
local function rate_state(rate, now, clock)
local state = standing(rate.limit, rate.log, now, clock, rate.expires_at)
if state.err then return state end
local _, _, reset = state.measure(0)
if reset == 0 then
for _, waiter in ipairs(waiting_now(rate.line, now)) do state.book(waiter.cost, waiter.turn - now) end
end
return state
end
local function waiter_pack(turn, cost, id)
return struct.pack('>I6I7', turn, cost) .. id
end
local function tell_waiters(waiting, first, channel, word_of)
local words, processes = {}, {}
for i = first, #waiting do
local process, number = string.match(waiting[i].id, '^(.*)/(.*)$')
if not words[process] then
words[process] = {}
processes[#processes + 1] = process
end
table.insert(words[process], number .. ':' .. string.format('%.0f', word_of(waiting[i])))
end
for _, process in ipairs(processes) do
local ear = channel .. process
redis.call('PUBLISH', ear, table.concat(words[process], ' '))
end
end
local function replan(state, list, waiting, first, extra, now, channel, expires_at)
local units = extra
for i = first, #waiting do units = units + waiting[i].cost end
state.refund(units)
redis.call('LTRIM', list, '0', first - 2)
if first == 1 then redis.call('DEL', list) end
for i = first, #waiting do
local waiter = waiting[i]
local wait = state.measure(waiter.cost)
if wait < 0 then wait = waiter.turn - now end
state.book(waiter.cost, wait)
waiter.turn = now + wait
redis.call('RPUSH', list, waiter_pack(waiter.turn, waiter.cost, waiter.id))
end
state.save()
if #waiting > 0 then redis.call('PEXPIREAT', list, expires_at(waiting[#waiting].turn - now)) end
tell_waiters(waiting, first, channel, function(waiter) return waiter.turn - now end)
end
local number, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = ARGV[3]
local now = now_ms(clock)
local client = ARGV[4]
local permits = tonumber(ARGV[5])
local channel = ARGV[6]
return once(KEYS[7], number, floor, function()
local rate = rate_open(clock, now)
if not rate then return { -2 } end
local state = rate_state(rate, now, clock)
if state.err then return redis.error_reply(state.err) end
local given_up = {}
for i = 7, #ARGV, 3 do given_up[ARGV[i]] = i end
local staying, units, first = {}, permits, nil
if permits > 0 then first = 1 end
for _, waiter in ipairs(waiting_now(rate.line, now)) do
if given_up[waiter.id] then
given_up[waiter.id] = nil
units = units + waiter.cost
first = first or #staying + 1
else
staying[#staying + 1] = waiter
end
end
for _, i in pairs(given_up) do
if tonumber(ARGV[i + 2]) == rate.epoch then
units = units + tonumber(ARGV[i + 1])
first = 1
end
end
if first then replan(state, rate.line, staying, first, units, now, channel, rate.expires_at) end
local _, _, reset = state.measure(0)
if rate.fleeting and reset > 0 then rate.register(client, reset) end
rate.use(reset)
return { 1 }, true
end)`,
}

export const rateSet: Script = {
  name: 'rate_set',
  sha1: '95b1e08269637f727e06469481709597b5e60a31',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function once(sent, number, floor, act, keep)
local newest = redis.call('LINDEX', sent, '-1')
if newest and struct.unpack('>I7', newest) >= number then
for _, entry in ipairs(redis.call('LRANGE', sent, '0', '-1')) do
if struct.unpack('>I7', entry) == number then return cmsgpack.unpack(string.sub(entry, 8)) end
end
end
local reply, changed, life = act()
if not changed then return reply end
if newest then
for _ = 1, 16 do
local oldest = redis.call('LINDEX', sent, '0')
if not oldest or struct.unpack('>I7', oldest) >= floor then break end
redis.call('LPOP', sent)
end
end
redis.call('RPUSH', sent, struct.pack('>I7', number) .. cmsgpack.pack(reply))
life = math.min(life or keep or 60000, 60000)
if redis.call('PTTL', sent) < life then redis.call('PEXPIRE', sent, life) end
return reply
end
local function rate_open(clock, now)
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'mode', 'keepAlive', 'endsAt', 'idleAt', 'epoch')
local rate, interval = tonumber(config[1]), tonumber(config[2])
local keep_alive, ends_at, idle_at = tonumber(config[4]), tonumber(config[5]), tonumber(config[6])
if not rate or not interval then return nil end
if (ends_at and now >= ends_at) or (idle_at and now >= idle_at) then return nil end
local server_ahead, padding, slack = 0, math.min(interval, 1000), 0
if clock ~= '' then
local time = redis.call('TIME')
server_ahead = time[1] * 1000 + math.floor(time[2] / 1000) - now
padding, slack = 5000, 5000
end
local fleeting = config[3] == 'per-client'
local function text(at) return string.format('%.0f', at + server_ahead) end
local function expires_at(reset)
local at = now + reset + padding
if keep_alive then at = math.min(at, now + math.max(keep_alive, reset) + slack) end
if ends_at then at = math.min(at, ends_at + slack) end
return text(at)
end
return {
limit = { algorithm = 'sliding-window', quota = rate, window = interval, burst = rate },
log = fleeting and KEYS[5] or KEYS[3],
line = fleeting and KEYS[6] or KEYS[4],
fleeting = fleeting,
keep_alive = keep_alive or -1,
ends_at = ends_at,
epoch = tonumber(config[7]) or 0,
expires_at = expires_at,
register = function(client, reset)
redis.call('ZADD', KEYS[2], now + reset, client)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - padding)
local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
redis.call('PEXPIREAT', KEYS[2], expires_at(math.max(reset, tonumber(last[2]) - now)))
end,
use = function(reset)
if keep_alive then
local idle = now + math.max(keep_alive, reset)
if fleeting then idle = math.max(idle, idle_at or 0) end
if ends_at then idle = math.min(idle, ends_at) end
redis.call('HSET', KEYS[1], 'idleAt', string.format('%.0f', idle))
redis.call('PEXPIREAT', KEYS[1], text(idle + slack))
end
return math.min(reset + padding, keep_alive or 60000)
end,
}
end
local function rate_parties(first)
local parties, known = { { log = KEYS[3], line = KEYS[4] } }, {}
for i = first, #ARGV do
local at = 5 + (i - first) * 2
known[ARGV[i]] = true
parties[#parties + 1] = { log = KEYS[at], line = KEYS[at + 1], client = ARGV[i] }
end
local strangers = {}
for _, client in ipairs(redis.call('ZRANGE', KEYS[2], '0', '-1')) do
if not known[client] then strangers[#strangers + 1] = client end
end
if #strangers > 0 then return nil, strangers end
return parties
end
local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local function load_rows(keys, at, x, y, errors)
local count = #keys
if count == 0 then return end
local values = redis.call('MGET', unpack(keys))
local missing, places = {}, {}
for i = 1, count do
local value = values[i]
if not value then
missing[#missing + 1] = keys[i]
places[#places + 1] = i
x[i], y[i] = 0, 0
elseif #value ~= 24 then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
else
at[i], x[i], y[i] = struct.unpack('<ddd', value)
if math.floor(at[i]) ~= at[i] or math.abs(at[i]) > 9007199254740992 or not (x[i] >= 0 and y[i] >= 0) then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
end
end
if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
for i, key in ipairs(missing) do
local kind = redis.call('TYPE', key).ok
if kind ~= 'none' then errors[places[i]] = 'WRONGTYPE the key holds a ' .. kind end
end
end
local function save_rows(slots, keys, at, x, y, expire_at)
if #slots == 0 then return end
local pairs_of = {}
for i = 1, #slots do
local slot = slots[i]
pairs_of[2 * i - 1] = keys[slot]
pairs_of[2 * i] = struct.pack('<ddd', at[slot], x[slot], y[slot])
end
redis.call('MSET', unpack(pairs_of))
for i = 1, #slots do
local slot = slots[i]
redis.call('PEXPIREAT', keys[slot], expire_at[slot])
end
end
local function fixed_window(limit, now, cost, at, x)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
next_at, next_x, next_y = at, x, 0
retry, delay = 0, 0
if at then
if at > now then
next_at = now
elseif at - now + window <= 0 then
next_at, next_x = nil, 0
end
end
if cost > quota then
retry = -1
elseif cost > 0 and next_x + cost > quota then
retry = next_at - now + window
elseif cost > 0 then
next_at = next_at or now
next_x = next_x + cost
end
remaining = next_x < quota and quota - next_x or 0
reset = next_at and next_at - now + window or 0
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function bucket(limit, now, cost, at, x, y)
local quota, window, burst, shaped = limit.quota, limit.window, limit.burst, limit.algorithm == 'leaky-bucket'
local retry, remaining, reset, delay, next_at, next_x, next_y
local most, found = 0, 0
if quota > 0 then
most = burst
if at then
found = x
if now > at then found = x - quota * (now - at) end
if found < 0 then found = 0 end
end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
local over = found - (most - cost) * window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, quota)
else
after = found + cost * window
next_at, next_x, next_y = now, after, quota
if shaped then delay = ceil_div(found, quota) end
end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
remaining = left / window
remaining = remaining - remaining % 1
if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
reset = after / quota
reset = reset - reset % 1
if reset * quota > after then reset = reset - 1 end
if reset * quota < after then reset = reset + 1 end
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function roll_cells(quota, window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, x, y)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
local cell, inside, before = roll_cells(quota, window, now, at, x, y)
local overlap = cell - now + window
local room = quota - cost - inside
retry, reset, delay = 0, 0, 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
remaining = quota - inside - ceil_div(before * overlap, window)
if remaining < 0 then remaining = 0 end
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
if retry == 0 and cost > 0 or at and at > cell then
next_at, next_x, next_y = cell, inside, before
else
next_at, next_x, next_y = at, x, y
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), limit.quota
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), limit.quota
end
local function log_pack(at, total)
if total < 65536 then return struct.pack('>I6I2', at, total) end
if total < 16777216 then return struct.pack('>I6I3', at, total) end
if total < 4294967296 then return struct.pack('>I6I4', at, total) end
return struct.pack('>I6I7', at, total)
end
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
return struct.unpack(log_formats[#entry], entry)
end
local function log_search(key, low, high, test)
local found_at, found_total
while low < high do
local middle = math.floor((low + high) / 2)
local at, total = log_unpack(redis.call('LINDEX', key, middle))
if test(at, total) then
high, found_at, found_total = middle, at, total
else
low = middle + 1
end
end
return high, found_at, found_total
end
local function log_open(key, window, now, writable)
local head = redis.pcall('LRANGE', key, '0', '1')
if head.err then return head end
if not head[1] then return { gone = 0, total = 0, booked = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local booked, gone = log_unpack(head[1])
local log = { gone = gone, booked = booked, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
local last = redis.call('LINDEX', key, '-1')
if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' } end
log.newest, log.total = log_unpack(last)
if log.newest > now and booked < log.newest then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, '0', from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('LSET', key, '0', log_pack(0, gone))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, booked = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, '-1')
if booked > now then redis.call('LSET', key, '0', log_pack(booked, before)) end
log.first = 1
end
end
return log
end
local function log_refund(key, log, cost, expire_at)
if not log.newest or cost == 0 then return end
local total = math.max(log.gone, log.total - cost)
if total == log.gone then
redis.call('DEL', key)
return
end
local index, at, reached = log_search(key, 1, redis.call('LLEN', key), function(_, sum) return sum >= total end)
redis.call('LTRIM', key, '0', index)
if reached > total then redis.call('LSET', key, '-1', log_pack(at, total)) end
redis.call('PEXPIREAT', key, expire_at)
end
local function log_rebase(key, log)
local gone = log.gone
if log.stored then
local entries = redis.call('LRANGE', key, '0', '-1')
redis.call('DEL', key)
redis.call('RPUSH', key, log_pack(log.booked, 0))
for i = 2, #entries do
local at, total = log_unpack(entries[i])
redis.call('RPUSH', key, log_pack(at, total - gone))
end
end
log.gone, log.total = 0, log.total - gone
if log.oldest then log.oldest_total = log.oldest_total - gone end
end
local function log_book(key, log, now, at, cost, expire_at)
if log.rubbish then redis.call('DEL', key) end
log.rubbish = nil
if log.total + cost > 9007199254740991 then log_rebase(key, log) end
log.total = math.min(log.total + cost, 9007199254740991)
local entry = log_pack(at, log.total)
local booked = at > now and at or 0
if not log.stored then
redis.call('RPUSH', key, log_pack(booked, log.gone), entry)
else
if log.stored == at then
redis.call('LSET', key, '-1', entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('LSET', key, '0', log_pack(booked, log.gone))
end
if not log.oldest then log.oldest, log.first = at, 1 end
if log.oldest == at then log.oldest_total = log.total end
log.stored, log.newest, log.booked = at, at, booked
redis.call('PEXPIREAT', key, expire_at)
end
local function sliding_window(limit, now, cost, key, log)
local spent = log.total - log.gone
local reset = log.newest and log.newest - now + limit.window or 0
if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, limit.window, 0 end
if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
local enough = log.total - (limit.quota - cost)
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function expiry(clock, now)
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
return function(reset)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
return text
end
end
local function standing(limit, key, now, clock, expires_at)
expires_at = expires_at or expiry(clock, now)
local measure_row = row_measures[limit.algorithm]
if measure_row then
local at, x, y, errors = {}, {}, {}, {}
load_rows({ key }, at, x, y, errors)
local function charge(cost) at[1], x[1], y[1] = charge_row(limit, now, cost, at[1], x[1], y[1]) end
return {
err = errors[1],
measure = function(cost)
local retry, remaining, reset, delay = measure_row(limit, now, cost, at[1], x[1], y[1])
if retry > 0 and limit.algorithm == 'leaky-bucket' then
delay = ceil_div((limit.burst - cost) * limit.window, limit.quota)
end
return retry < 0 and -1 or retry + delay, remaining, reset
end,
book = charge,
charge = charge,
refund = function(cost)
local new_at, new_x, new_y = refund_row(limit, now, cost, at[1], x[1], y[1])
if new_at then at[1], x[1], y[1] = new_at, new_x, new_y end
end,
save = function()
if not at[1] then return end
local _, _, reset = measure_row(limit, now, 0, at[1], x[1], y[1])
save_rows({ 1 }, { key }, at, x, y, { expires_at(reset) })
end,
}
end
local log = log_open(key, limit.window, now, true)
return {
err = log.err,
measure = function(cost) return sliding_window(limit, now, cost, key, log) end,
book = function(cost, wait) log_book(key, log, now, now + wait, cost, expires_at(wait + limit.window)) end,
charge = function(cost)
local at = math.max(now, log.newest or now)
log_book(key, log, now, at, cost, expires_at(at - now + limit.window))
end,
refund = function(cost)
if not log.newest then return end
log_refund(key, log, cost, expires_at(math.max(0, log.newest - now) + limit.window))
log = log_open(key, limit.window, now, true)
end,
save = function() end,
}
end
local function waiting_now(list, now)
local waiting = {}
local gone = 0
for _, packed in ipairs(redis.call('LRANGE', list, '0', '-1')) do
local turn, cost = struct.unpack('>I6I7', packed)
if turn <= now then
gone = gone + 1
else
waiting[#waiting + 1] = { turn = turn, cost = cost, id = string.sub(packed, 14) }
end
end
if gone > 0 then redis.call('LTRIM', list, gone, '-1') end
return waiting
end
local function rate_state(rate, now, clock)
local state = standing(rate.limit, rate.log, now, clock, rate.expires_at)
if state.err then return state end
local _, _, reset = state.measure(0)
if reset == 0 then
for _, waiter in ipairs(waiting_now(rate.line, now)) do state.book(waiter.cost, waiter.turn - now) end
end
return state
end
local function tell_waiters(waiting, first, channel, word_of)
local words, processes = {}, {}
for i = first, #waiting do
local process, number = string.match(waiting[i].id, '^(.*)/(.*)$')
if not words[process] then
words[process] = {}
processes[#processes + 1] = process
end
table.insert(words[process], number .. ':' .. string.format('%.0f', word_of(waiting[i])))
end
for _, process in ipairs(processes) do
local ear = channel .. process
redis.call('PUBLISH', ear, table.concat(words[process], ' '))
end
end
local function waiter_pack(turn, cost, id)
return struct.pack('>I6I7', turn, cost) .. id
end
local function replan(state, list, waiting, first, extra, now, channel, expires_at)
local units = extra
for i = first, #waiting do units = units + waiting[i].cost end
state.refund(units)
redis.call('LTRIM', list, '0', first - 2)
if first == 1 then redis.call('DEL', list) end
for i = first, #waiting do
local waiter = waiting[i]
local wait = state.measure(waiter.cost)
if wait < 0 then wait = waiter.turn - now end
state.book(waiter.cost, wait)
waiter.turn = now + wait
redis.call('RPUSH', list, waiter_pack(waiter.turn, waiter.cost, waiter.id))
end
state.save()
if #waiting > 0 then redis.call('PEXPIREAT', list, expires_at(waiting[#waiting].turn - now)) end
tell_waiters(waiting, first, channel, function(waiter) return waiter.turn - now end)
end
local function rate_plan(rate, parties, now, clock, channel, forget, word_for)
local latest = 0
for _, party in ipairs(parties) do
rate.log, rate.line = party.log, party.line
local length = redis.pcall('LLEN', party.line)
if type(length) == 'table' then redis.call('DEL', party.line) end
local staying, leaving, units = {}, {}, 0
for _, waiter in ipairs(waiting_now(party.line, now)) do
waiter.word = word_for(waiter)
if waiter.word then units = units + waiter.cost end
local list = waiter.word and leaving or staying
list[#list + 1] = waiter
end
if forget then redis.call('DEL', party.log) end
if redis.call('EXISTS', party.log, party.line) > 0 then
local state = rate_state(rate, now, clock)
if state.err then
redis.call('DEL', party.log)
state = rate_state(rate, now, clock)
end
if #staying + #leaving > 0 then
replan(state, party.line, staying, 1, units, now, channel, rate.expires_at)
end
local _, _, reset = state.measure(0)
redis.call('PEXPIREAT', party.log, rate.expires_at(reset))
if rate.fleeting and party.client and reset > 0 then rate.register(party.client, reset) end
latest = math.max(latest, reset)
end
tell_waiters(leaving, 1, channel, function(waiter) return waiter.word end)
end
redis.call('PEXPIREAT', KEYS[2], rate.expires_at(math.max(latest, rate.limit.window)))
return latest
end
local number, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = ARGV[3]
local now = now_ms(clock)
local when = ARGV[4]
local keep = ARGV[5] == '1'
local rate_given, interval_given, mode_given, keep_alive_given = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local channel = ARGV[10]
local function whole(value) return string.format('%.0f', value) end
return once(KEYS[#KEYS], number, floor, function()
local before = rate_open(clock, now)
if (when == 'absent' and before) or (when == 'present' and not before) then return { 0 } end
local parties, strangers = rate_parties(11)
if not parties then return strangers end
local moved = before and before.fleeting ~= (mode_given == 'per-client')
local epoch = before and before.epoch
if moved or not before then
local time = redis.call('TIME')
epoch = time[1] * 1000000 + time[2]
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'rate', rate_given, 'interval', interval_given, 'mode', mode_given, 'epoch', whole(epoch))
if keep_alive_given ~= '-1' then redis.call('HSET', KEYS[1], 'keepAlive', keep_alive_given) end
if before and before.ends_at then
redis.call('HSET', KEYS[1], 'endsAt', whole(before.ends_at))
redis.call('PEXPIREAT', KEYS[1], before.expires_at(before.ends_at - now))
end
local rate = rate_open(clock, now)
local sent_away = false
rate.use(rate_plan(rate, parties, now, clock, channel, not (keep and before), function(waiter)
if moved then return -3 end
if not before then return -2 end
if waiter.cost <= rate.limit.quota then return nil end
sent_away = true
return -1
end))
if sent_away then redis.call('HINCRBY', KEYS[1], 'epoch', '1') end
return { 1 }, true, rate.keep_alive > 0 and rate.keep_alive or nil
end)`,
}

export const reset: Script = {
  name: 'reset',
  sha1: 'a43ef0ab2eac9fd797e5488ae22c760e43de4306',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function read_limits(first, count)
local limits = {}
for i = 1, count do
limits[i] = {
algorithm = ARGV[first],
quota = tonumber(ARGV[first + 1]),
window = tonumber(ARGV[first + 2]),
burst = tonumber(ARGV[first + 3]),
}
first = first + 4
end
return limits, first
end
local function expiry(clock, now)
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
return function(reset)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
return text
end
end
local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local function load_rows(keys, at, x, y, errors)
local count = #keys
if count == 0 then return end
local values = redis.call('MGET', unpack(keys))
local missing, places = {}, {}
for i = 1, count do
local value = values[i]
if not value then
missing[#missing + 1] = keys[i]
places[#places + 1] = i
x[i], y[i] = 0, 0
elseif #value ~= 24 then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
else
at[i], x[i], y[i] = struct.unpack('<ddd', value)
if math.floor(at[i]) ~= at[i] or math.abs(at[i]) > 9007199254740992 or not (x[i] >= 0 and y[i] >= 0) then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
end
end
if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
for i, key in ipairs(missing) do
local kind = redis.call('TYPE', key).ok
if kind ~= 'none' then errors[places[i]] = 'WRONGTYPE the key holds a ' .. kind end
end
end
local function save_rows(slots, keys, at, x, y, expire_at)
if #slots == 0 then return end
local pairs_of = {}
for i = 1, #slots do
local slot = slots[i]
pairs_of[2 * i - 1] = keys[slot]
pairs_of[2 * i] = struct.pack('<ddd', at[slot], x[slot], y[slot])
end
redis.call('MSET', unpack(pairs_of))
for i = 1, #slots do
local slot = slots[i]
redis.call('PEXPIREAT', keys[slot], expire_at[slot])
end
end
local function fixed_window(limit, now, cost, at, x)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
next_at, next_x, next_y = at, x, 0
retry, delay = 0, 0
if at then
if at > now then
next_at = now
elseif at - now + window <= 0 then
next_at, next_x = nil, 0
end
end
if cost > quota then
retry = -1
elseif cost > 0 and next_x + cost > quota then
retry = next_at - now + window
elseif cost > 0 then
next_at = next_at or now
next_x = next_x + cost
end
remaining = next_x < quota and quota - next_x or 0
reset = next_at and next_at - now + window or 0
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function bucket(limit, now, cost, at, x, y)
local quota, window, burst, shaped = limit.quota, limit.window, limit.burst, limit.algorithm == 'leaky-bucket'
local retry, remaining, reset, delay, next_at, next_x, next_y
local most, found = 0, 0
if quota > 0 then
most = burst
if at then
found = x
if now > at then found = x - quota * (now - at) end
if found < 0 then found = 0 end
end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
local over = found - (most - cost) * window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, quota)
else
after = found + cost * window
next_at, next_x, next_y = now, after, quota
if shaped then delay = ceil_div(found, quota) end
end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
remaining = left / window
remaining = remaining - remaining % 1
if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
reset = after / quota
reset = reset - reset % 1
if reset * quota > after then reset = reset - 1 end
if reset * quota < after then reset = reset + 1 end
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function roll_cells(quota, window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, x, y)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
local cell, inside, before = roll_cells(quota, window, now, at, x, y)
local overlap = cell - now + window
local room = quota - cost - inside
retry, reset, delay = 0, 0, 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
remaining = quota - inside - ceil_div(before * overlap, window)
if remaining < 0 then remaining = 0 end
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
if retry == 0 and cost > 0 or at and at > cell then
next_at, next_x, next_y = cell, inside, before
else
next_at, next_x, next_y = at, x, y
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), limit.quota
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), limit.quota
end
local function log_pack(at, total)
if total < 65536 then return struct.pack('>I6I2', at, total) end
if total < 16777216 then return struct.pack('>I6I3', at, total) end
if total < 4294967296 then return struct.pack('>I6I4', at, total) end
return struct.pack('>I6I7', at, total)
end
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
return struct.unpack(log_formats[#entry], entry)
end
local function log_search(key, low, high, test)
local found_at, found_total
while low < high do
local middle = math.floor((low + high) / 2)
local at, total = log_unpack(redis.call('LINDEX', key, middle))
if test(at, total) then
high, found_at, found_total = middle, at, total
else
low = middle + 1
end
end
return high, found_at, found_total
end
local function log_open(key, window, now, writable)
local head = redis.pcall('LRANGE', key, '0', '1')
if head.err then return head end
if not head[1] then return { gone = 0, total = 0, booked = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local booked, gone = log_unpack(head[1])
local log = { gone = gone, booked = booked, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
local last = redis.call('LINDEX', key, '-1')
if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' } end
log.newest, log.total = log_unpack(last)
if log.newest > now and booked < log.newest then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, '0', from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('LSET', key, '0', log_pack(0, gone))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, booked = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, '-1')
if booked > now then redis.call('LSET', key, '0', log_pack(booked, before)) end
log.first = 1
end
end
return log
end
local function log_refund(key, log, cost, expire_at)
if not log.newest or cost == 0 then return end
local total = math.max(log.gone, log.total - cost)
if total == log.gone then
redis.call('DEL', key)
return
end
local index, at, reached = log_search(key, 1, redis.call('LLEN', key), function(_, sum) return sum >= total end)
redis.call('LTRIM', key, '0', index)
if reached > total then redis.call('LSET', key, '-1', log_pack(at, total)) end
redis.call('PEXPIREAT', key, expire_at)
end
local function log_rebase(key, log)
local gone = log.gone
if log.stored then
local entries = redis.call('LRANGE', key, '0', '-1')
redis.call('DEL', key)
redis.call('RPUSH', key, log_pack(log.booked, 0))
for i = 2, #entries do
local at, total = log_unpack(entries[i])
redis.call('RPUSH', key, log_pack(at, total - gone))
end
end
log.gone, log.total = 0, log.total - gone
if log.oldest then log.oldest_total = log.oldest_total - gone end
end
local function log_book(key, log, now, at, cost, expire_at)
if log.rubbish then redis.call('DEL', key) end
log.rubbish = nil
if log.total + cost > 9007199254740991 then log_rebase(key, log) end
log.total = math.min(log.total + cost, 9007199254740991)
local entry = log_pack(at, log.total)
local booked = at > now and at or 0
if not log.stored then
redis.call('RPUSH', key, log_pack(booked, log.gone), entry)
else
if log.stored == at then
redis.call('LSET', key, '-1', entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('LSET', key, '0', log_pack(booked, log.gone))
end
if not log.oldest then log.oldest, log.first = at, 1 end
if log.oldest == at then log.oldest_total = log.total end
log.stored, log.newest, log.booked = at, at, booked
redis.call('PEXPIREAT', key, expire_at)
end
local function sliding_window(limit, now, cost, key, log)
local spent = log.total - log.gone
local reset = log.newest and log.newest - now + limit.window or 0
if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, limit.window, 0 end
if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
local enough = log.total - (limit.quota - cost)
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function standing(limit, key, now, clock, expires_at)
expires_at = expires_at or expiry(clock, now)
local measure_row = row_measures[limit.algorithm]
if measure_row then
local at, x, y, errors = {}, {}, {}, {}
load_rows({ key }, at, x, y, errors)
local function charge(cost) at[1], x[1], y[1] = charge_row(limit, now, cost, at[1], x[1], y[1]) end
return {
err = errors[1],
measure = function(cost)
local retry, remaining, reset, delay = measure_row(limit, now, cost, at[1], x[1], y[1])
if retry > 0 and limit.algorithm == 'leaky-bucket' then
delay = ceil_div((limit.burst - cost) * limit.window, limit.quota)
end
return retry < 0 and -1 or retry + delay, remaining, reset
end,
book = charge,
charge = charge,
refund = function(cost)
local new_at, new_x, new_y = refund_row(limit, now, cost, at[1], x[1], y[1])
if new_at then at[1], x[1], y[1] = new_at, new_x, new_y end
end,
save = function()
if not at[1] then return end
local _, _, reset = measure_row(limit, now, 0, at[1], x[1], y[1])
save_rows({ 1 }, { key }, at, x, y, { expires_at(reset) })
end,
}
end
local log = log_open(key, limit.window, now, true)
return {
err = log.err,
measure = function(cost) return sliding_window(limit, now, cost, key, log) end,
book = function(cost, wait) log_book(key, log, now, now + wait, cost, expires_at(wait + limit.window)) end,
charge = function(cost)
local at = math.max(now, log.newest or now)
log_book(key, log, now, at, cost, expires_at(at - now + limit.window))
end,
refund = function(cost)
if not log.newest then return end
log_refund(key, log, cost, expires_at(math.max(0, log.newest - now) + limit.window))
log = log_open(key, limit.window, now, true)
end,
save = function() end,
}
end
local function waiting_now(list, now)
local waiting = {}
local gone = 0
for _, packed in ipairs(redis.call('LRANGE', list, '0', '-1')) do
local turn, cost = struct.unpack('>I6I7', packed)
if turn <= now then
gone = gone + 1
else
waiting[#waiting + 1] = { turn = turn, cost = cost, id = string.sub(packed, 14) }
end
end
if gone > 0 then redis.call('LTRIM', list, gone, '-1') end
return waiting
end
local function waiter_pack(turn, cost, id)
return struct.pack('>I6I7', turn, cost) .. id
end
local function tell_waiters(waiting, first, channel, word_of)
local words, processes = {}, {}
for i = first, #waiting do
local process, number = string.match(waiting[i].id, '^(.*)/(.*)$')
if not words[process] then
words[process] = {}
processes[#processes + 1] = process
end
table.insert(words[process], number .. ':' .. string.format('%.0f', word_of(waiting[i])))
end
for _, process in ipairs(processes) do
local ear = channel .. process
redis.call('PUBLISH', ear, table.concat(words[process], ' '))
end
end
local function replan(state, list, waiting, first, extra, now, channel, expires_at)
local units = extra
for i = first, #waiting do units = units + waiting[i].cost end
state.refund(units)
redis.call('LTRIM', list, '0', first - 2)
if first == 1 then redis.call('DEL', list) end
for i = first, #waiting do
local waiter = waiting[i]
local wait = state.measure(waiter.cost)
if wait < 0 then wait = waiter.turn - now end
state.book(waiter.cost, wait)
waiter.turn = now + wait
redis.call('RPUSH', list, waiter_pack(waiter.turn, waiter.cost, waiter.id))
end
state.save()
if #waiting > 0 then redis.call('PEXPIREAT', list, expires_at(waiting[#waiting].turn - now)) end
tell_waiters(waiting, first, channel, function(waiter) return waiter.turn - now end)
end
local clock = ARGV[1]
local now = now_ms(clock)
local channel = ARGV[2]
local count = tonumber(ARGV[3])
local limits = read_limits(4, count)
for i = 1, count do
local key, list = KEYS[i], KEYS[count + i]
redis.call('UNLINK', key)
local waiting = waiting_now(list, now)
if #waiting > 0 then
replan(standing(limits[i], key, now, clock), list, waiting, 1, 0, now, channel, expiry(clock, now))
end
end`,
}

export const semaphoreAcquire: Script = {
  name: 'semaphore_acquire',
  sha1: '6db684885ae2f4fbefd6fd16123b986d1cf7e4c0',
  source: `local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local party = ARGV[5]
local permits = tonumber(ARGV[6])
local lease = tonumber(ARGV[7])
local waits = ARGV[8] == '1'
local first_place = ARGV[9]
local call = redis.call
local stored = call('HMGET', KEYS[1], 'permits', 'used', 'last', 'idle', 'calm', 'life')
local total, used, calm = tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[5])
local wanted = (#ARGV - 9) * permits
if
first_place == ''
and total
and used
and calm
and wanted <= total - used
and (initial >= -1 or total == -2 - initial)
and (idle < 0 or idle == tonumber(stored[4]))
then
local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = clock == '' and math.floor(micros / 1000) or tonumber(clock)
local last = math.max(tonumber(stored[3] or 0), micros - 1)
local deadline = now + lease
local reply
if now >= calm then
reply = nil
elseif #ARGV == 10 then
local token = string.format('%.0f', last + 1)
if call('HSETNX', KEYS[3], ARGV[10], ARGV[6] .. ' ' .. party .. ' ' .. token) == 1 then
call('ZADD', KEYS[2], deadline, ARGV[10])
reply = { 1, token, deadline }
end
else
local known = false
for _, fact in ipairs(used > 0 and call('HMGET', KEYS[3], unpack(ARGV, 10)) or {}) do known = known or fact end
if not known then
local facts, deadlines, count = {}, {}, 0
local head = ARGV[6] .. ' ' .. party .. ' '
local deadline_text = string.format('%.0f', deadline)
reply = {}
for i = 10, #ARGV do
local token = string.format('%.0f', last + i - 9)
facts[count + 1], facts[count + 2] = ARGV[i], head .. token
deadlines[count + 1], deadlines[count + 2] = deadline_text, ARGV[i]
count = count + 2
reply[#reply + 1] = 1
reply[#reply + 1] = token
reply[#reply + 1] = deadline
end
call('HSET', KEYS[3], unpack(facts))
call('ZADD', KEYS[2], unpack(deadlines))
end
end
if reply then
local padding = clock == '' and 1000 or 5000
local life = tonumber(stored[6] or 0)
last = last + #ARGV - 9
local short = life < deadline + padding
if short then life = deadline + padding + math.ceil(lease / 4) end
if short or deadline < calm then
call('HSET', KEYS[1], 'used', used + wanted, 'last', last, 'life', life, 'calm', math.min(calm, deadline))
else
call('HSET', KEYS[1], 'used', used + wanted, 'last', last)
end
if short or used == 0 then
call('PEXPIRE', KEYS[2], life - now)
call('PEXPIRE', KEYS[3], life - now)
if stored[4] then call('PEXPIRE', KEYS[1], life - now + stored[4]) end
end
return reply
end
end
local function semaphore_read(keys, clock, initial, idle)
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local s = {
micros = micros,
now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
padding = clock == '' and 1000 or 5000,
}
s.config, s.leases, s.facts, s.line, s.offers, s.parties = unpack(keys, 1, 6)
s.stored = redis.call('HMGET', s.config, 'permits', 'used', 'last', 'idle', 'calm', 'life')
s.permits = tonumber(s.stored[1])
if initial < -1 then
s.permits = -2 - initial
elseif not s.permits then
if initial < 0 then return nil end
s.permits = initial
end
s.used = tonumber(s.stored[2])
s.last = tonumber(s.stored[3]) or 0
s.idle = tonumber(s.stored[4])
s.calm = s.used and tonumber(s.stored[5]) or 0
s.life = tonumber(s.stored[6]) or 0
if idle >= 0 then s.idle = idle end
return s
end
local function semaphore_fact(fact)
local permits, party, number = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
return tonumber(permits) or 1, party, number
end
local SEMAPHORE_BATCH = 1000
local function semaphore_sum(s, ids)
local sum = 0
for from = 1, #ids, SEMAPHORE_BATCH do
local facts = redis.call('HMGET', s.facts, unpack(ids, from, math.min(#ids, from + SEMAPHORE_BATCH - 1)))
for _, fact in ipairs(facts) do sum = sum + (fact and tonumber(string.match(fact, '^%d+')) or 1) end
end
return sum
end
local function semaphore_sweep(s)
s.crowded = redis.call('EXISTS', s.line, s.offers) > 0
local lease = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
local offer = s.crowded and tonumber(redis.call('ZRANGE', s.offers, '0', '0', 'WITHSCORES')[2])
if not lease and not offer then
s.used = 0
return s
end
if not s.used then
s.used = semaphore_sum(s, redis.call('ZRANGE', s.leases, '0', '-1'))
+ semaphore_sum(s, redis.call('ZRANGE', s.offers, '0', '-1'))
end
while lease and lease <= s.now do
local over = redis.call('ZRANGEBYSCORE', s.leases, '-inf', s.now, 'LIMIT', '0', SEMAPHORE_BATCH)
if #over == 0 then break end
s.used = s.used - semaphore_sum(s, over)
redis.call('ZREMRANGEBYRANK', s.leases, '0', #over - 1)
redis.call('HDEL', s.facts, unpack(over))
end
if offer and offer <= s.now then
for _, id in ipairs(redis.call('ZRANGEBYSCORE', s.offers, '-inf', s.now)) do
local permits, party, place = semaphore_fact(redis.call('HGET', s.facts, id))
s.used = s.used - permits
redis.call('ZREM', s.offers, id)
if party then
redis.call('ZADD', s.line, place, id)
redis.call('ZADD', s.parties, 'XX', s.now, party)
end
end
end
return s
end
local function semaphore_open(keys, clock, initial, idle)
local s = semaphore_read(keys, clock, initial, idle)
return s and semaphore_sweep(s)
end
local function semaphore_number(s)
s.last = math.max(s.last + 1, s.micros)
return string.format('%.0f', s.last)
end
local function semaphore_alive(s, party)
local waiting = redis.call('ZCARD', s.parties)
local pause = math.min(5000, math.max(900, 600 * waiting))
redis.call('ZADD', s.parties, s.now + pause * 2.5, party)
return pause
end
local function semaphore_tell(channel, party, text)
local process, number = string.match(party, '^(.*)/(.*)$')
local ear = channel .. process
redis.call('PUBLISH', ear, number .. ' ' .. text)
end
local SEMAPHORE_OFFER_MS = 500
local function semaphore_offer(s, channel, asking)
if not s.crowded then return end
local to
while s.used < s.permits do
local id = redis.call('ZRANGE', s.line, '0', '0')[1]
if not id then break end
local permits, party = semaphore_fact(redis.call('HGET', s.facts, id))
local seen = party and tonumber(redis.call('ZSCORE', s.parties, party) or nil)
s.left = true
if not seen or seen <= s.now then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
if party then redis.call('ZREM', s.parties, party) end
elseif permits > s.permits then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
semaphore_tell(channel, party, id)
elseif permits > s.permits - s.used then
break
else
redis.call('ZREM', s.line, id)
redis.call('ZADD', s.offers, s.now + SEMAPHORE_OFFER_MS, id)
s.used = s.used + permits
if id ~= asking then
semaphore_tell(channel, party, id)
to = party
end
end
end
if not to then return end
local _, watcher = semaphore_fact(redis.call('HGET', s.facts, redis.call('ZRANGE', s.line, '0', '0')[1] or ''))
if watcher and watcher ~= to then semaphore_tell(channel, watcher, '!') end
end
local SEMAPHORE_FIELDS = { 'permits', 'used', 'last', 'idle', 'calm', 'life' }
local function semaphore_put(s)
local changed = {}
for i, field in ipairs(SEMAPHORE_FIELDS) do
local value = s[field]
if value and value ~= tonumber(s.stored[i]) then
changed[#changed + 1] = field
changed[#changed + 1] = value
end
end
if #changed > 0 then redis.call('HSET', s.config, unpack(changed)) end
end
local SEMAPHORE_LINE_MS = 10000
local function semaphore_save(s)
local lives = 0
local latest = s.used ~= 0 and tonumber(redis.call('ZRANGE', s.leases, '-1', '-1', 'WITHSCORES')[2])
s.calm = s.now + 1000000000
if latest then
lives = math.max(0, latest - s.now) + s.padding
redis.call('PEXPIRE', s.leases, lives)
s.calm = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
end
if s.crowded and redis.call('EXISTS', s.line, s.offers) > 0 then
s.calm = 0
lives = math.max(lives, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.line, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.offers, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.parties, SEMAPHORE_LINE_MS)
elseif s.left then
redis.call('DEL', s.parties)
end
if lives > 0 then redis.call('PEXPIRE', s.facts, lives) end
s.life = s.now + lives
semaphore_put(s)
if s.idle then redis.call('PEXPIRE', s.config, lives + s.idle) end
end
local function semaphore_next(s)
local lease = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
local offer = tonumber(redis.call('ZRANGE', s.offers, '0', '0', 'WITHSCORES')[2])
local first = math.min(lease or math.huge, offer or math.huge)
return first == math.huge and -1 or math.max(0, first - s.now)
end
local s = semaphore_open(KEYS, clock, initial, idle)
if not s then return { -2 } end
local function lease_of(id)
local token = semaphore_number(s)
redis.call('ZADD', s.leases, s.now + lease, id)
redis.call('HSET', s.facts, id, permits .. ' ' .. party .. ' ' .. token)
return 1, token, s.now + lease
end
local function offered(id)
local taken = redis.call('ZREM', s.offers, id) == 1
s.left = s.left or taken
return taken
end
local pause
local function enqueue(id, place)
s.crowded = true
redis.call('ZADD', s.line, place, id)
pause = pause or semaphore_alive(s, party)
redis.call('HSET', s.facts, id, permits .. ' ' .. party .. ' ' .. place)
end
local function ask(id, place)
local fact = (s.used ~= 0 or s.crowded) and redis.call('HGET', s.facts, id)
if fact then
local deadline = tonumber(redis.call('ZSCORE', s.leases, id) or nil)
local _, _, number = semaphore_fact(fact)
if deadline then return 1, number, deadline end
if offered(id) then return lease_of(id) end
place = number
end
if permits > s.permits then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
s.left = true
semaphore_offer(s, channel, id)
return -1, s.permits, 0
end
if waits and place ~= '' then
enqueue(id, place)
semaphore_offer(s, channel, id)
if offered(id) then return lease_of(id) end
else
semaphore_offer(s, channel, id)
if permits <= s.permits - s.used and not (s.crowded and redis.call('EXISTS', s.line) == 1) then
s.used = s.used + permits
return lease_of(id)
end
if waits then
place = semaphore_number(s)
enqueue(id, place)
end
end
return 0, place, 0
end
local reply, refused = {}, false
for i = 10, #ARGV do
local outcome, what, deadline = ask(ARGV[i], i == 10 and first_place or '')
refused = refused or outcome == 0
reply[#reply + 1] = outcome
reply[#reply + 1] = what
reply[#reply + 1] = deadline
end
semaphore_save(s)
if refused then
reply[#reply + 1] = semaphore_next(s)
reply[#reply + 1] = pause or 0
end
return reply`,
}

export const semaphoreDelete: Script = {
  name: 'semaphore_delete',
  sha1: 'ead8b61a8c9acd2cb030a74da15c6cd2e97eb0f1',
  source: `local function once(sent, number, floor, act, keep)
local newest = redis.call('LINDEX', sent, '-1')
if newest and struct.unpack('>I7', newest) >= number then
for _, entry in ipairs(redis.call('LRANGE', sent, '0', '-1')) do
if struct.unpack('>I7', entry) == number then return cmsgpack.unpack(string.sub(entry, 8)) end
end
end
local reply, changed, life = act()
if not changed then return reply end
if newest then
for _ = 1, 16 do
local oldest = redis.call('LINDEX', sent, '0')
if not oldest or struct.unpack('>I7', oldest) >= floor then break end
redis.call('LPOP', sent)
end
end
redis.call('RPUSH', sent, struct.pack('>I7', number) .. cmsgpack.pack(reply))
life = math.min(life or keep or 60000, 60000)
if redis.call('PTTL', sent) < life then redis.call('PEXPIRE', sent, life) end
return reply
end
local function semaphore_fact(fact)
local permits, party, number = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
return tonumber(permits) or 1, party, number
end
local function semaphore_tell(channel, party, text)
local process, number = string.match(party, '^(.*)/(.*)$')
local ear = channel .. process
redis.call('PUBLISH', ear, number .. ' ' .. text)
end
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local channel = ARGV[3]
local keep = tonumber(ARGV[4])
local function delete()
local told = {}
for _, fact in ipairs(redis.call('HVALS', KEYS[3])) do
local _, party = semaphore_fact(fact)
if party and not told[party] then
told[party] = true
semaphore_tell(channel, party, '*')
end
end
local existed = redis.call('EXISTS', KEYS[1])
redis.call('DEL', unpack(KEYS, 1, 6))
return { existed }, existed == 1
end
return once(KEYS[7], number, floor, delete, keep >= 0 and keep or nil)`,
}

export const semaphoreLook: Script = {
  name: 'semaphore_look',
  sha1: 'dfa961861f4f52f9a6520923efb22925c403efd2',
  source: `local function semaphore_read(keys, clock, initial, idle)
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local s = {
micros = micros,
now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
padding = clock == '' and 1000 or 5000,
}
s.config, s.leases, s.facts, s.line, s.offers, s.parties = unpack(keys, 1, 6)
s.stored = redis.call('HMGET', s.config, 'permits', 'used', 'last', 'idle', 'calm', 'life')
s.permits = tonumber(s.stored[1])
if initial < -1 then
s.permits = -2 - initial
elseif not s.permits then
if initial < 0 then return nil end
s.permits = initial
end
s.used = tonumber(s.stored[2])
s.last = tonumber(s.stored[3]) or 0
s.idle = tonumber(s.stored[4])
s.calm = s.used and tonumber(s.stored[5]) or 0
s.life = tonumber(s.stored[6]) or 0
if idle >= 0 then s.idle = idle end
return s
end
local function semaphore_fact(fact)
local permits, party, number = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
return tonumber(permits) or 1, party, number
end
local SEMAPHORE_BATCH = 1000
local function semaphore_sum(s, ids)
local sum = 0
for from = 1, #ids, SEMAPHORE_BATCH do
local facts = redis.call('HMGET', s.facts, unpack(ids, from, math.min(#ids, from + SEMAPHORE_BATCH - 1)))
for _, fact in ipairs(facts) do sum = sum + (fact and tonumber(string.match(fact, '^%d+')) or 1) end
end
return sum
end
local function semaphore_sweep(s)
s.crowded = redis.call('EXISTS', s.line, s.offers) > 0
local lease = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
local offer = s.crowded and tonumber(redis.call('ZRANGE', s.offers, '0', '0', 'WITHSCORES')[2])
if not lease and not offer then
s.used = 0
return s
end
if not s.used then
s.used = semaphore_sum(s, redis.call('ZRANGE', s.leases, '0', '-1'))
+ semaphore_sum(s, redis.call('ZRANGE', s.offers, '0', '-1'))
end
while lease and lease <= s.now do
local over = redis.call('ZRANGEBYSCORE', s.leases, '-inf', s.now, 'LIMIT', '0', SEMAPHORE_BATCH)
if #over == 0 then break end
s.used = s.used - semaphore_sum(s, over)
redis.call('ZREMRANGEBYRANK', s.leases, '0', #over - 1)
redis.call('HDEL', s.facts, unpack(over))
end
if offer and offer <= s.now then
for _, id in ipairs(redis.call('ZRANGEBYSCORE', s.offers, '-inf', s.now)) do
local permits, party, place = semaphore_fact(redis.call('HGET', s.facts, id))
s.used = s.used - permits
redis.call('ZREM', s.offers, id)
if party then
redis.call('ZADD', s.line, place, id)
redis.call('ZADD', s.parties, 'XX', s.now, party)
end
end
end
return s
end
local function semaphore_open(keys, clock, initial, idle)
local s = semaphore_read(keys, clock, initial, idle)
return s and semaphore_sweep(s)
end
local function semaphore_tell(channel, party, text)
local process, number = string.match(party, '^(.*)/(.*)$')
local ear = channel .. process
redis.call('PUBLISH', ear, number .. ' ' .. text)
end
local SEMAPHORE_OFFER_MS = 500
local function semaphore_offer(s, channel, asking)
if not s.crowded then return end
local to
while s.used < s.permits do
local id = redis.call('ZRANGE', s.line, '0', '0')[1]
if not id then break end
local permits, party = semaphore_fact(redis.call('HGET', s.facts, id))
local seen = party and tonumber(redis.call('ZSCORE', s.parties, party) or nil)
s.left = true
if not seen or seen <= s.now then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
if party then redis.call('ZREM', s.parties, party) end
elseif permits > s.permits then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
semaphore_tell(channel, party, id)
elseif permits > s.permits - s.used then
break
else
redis.call('ZREM', s.line, id)
redis.call('ZADD', s.offers, s.now + SEMAPHORE_OFFER_MS, id)
s.used = s.used + permits
if id ~= asking then
semaphore_tell(channel, party, id)
to = party
end
end
end
if not to then return end
local _, watcher = semaphore_fact(redis.call('HGET', s.facts, redis.call('ZRANGE', s.line, '0', '0')[1] or ''))
if watcher and watcher ~= to then semaphore_tell(channel, watcher, '!') end
end
local SEMAPHORE_FIELDS = { 'permits', 'used', 'last', 'idle', 'calm', 'life' }
local function semaphore_put(s)
local changed = {}
for i, field in ipairs(SEMAPHORE_FIELDS) do
local value = s[field]
if value and value ~= tonumber(s.stored[i]) then
changed[#changed + 1] = field
changed[#changed + 1] = value
end
end
if #changed > 0 then redis.call('HSET', s.config, unpack(changed)) end
end
local SEMAPHORE_LINE_MS = 10000
local function semaphore_save(s)
local lives = 0
local latest = s.used ~= 0 and tonumber(redis.call('ZRANGE', s.leases, '-1', '-1', 'WITHSCORES')[2])
s.calm = s.now + 1000000000
if latest then
lives = math.max(0, latest - s.now) + s.padding
redis.call('PEXPIRE', s.leases, lives)
s.calm = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
end
if s.crowded and redis.call('EXISTS', s.line, s.offers) > 0 then
s.calm = 0
lives = math.max(lives, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.line, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.offers, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.parties, SEMAPHORE_LINE_MS)
elseif s.left then
redis.call('DEL', s.parties)
end
if lives > 0 then redis.call('PEXPIRE', s.facts, lives) end
s.life = s.now + lives
semaphore_put(s)
if s.idle then redis.call('PEXPIRE', s.config, lives + s.idle) end
end
local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local what = ARGV[5]
local s = semaphore_open(KEYS, clock, initial, idle)
if not s then return { -2 } end
semaphore_offer(s, channel, '')
semaphore_save(s)
local reply = { s.permits, s.used }
if what == 'leases' then
local leases = redis.call('ZRANGE', s.leases, '0', '-1', 'WITHSCORES')
for i = 1, #leases, 2 do
reply[#reply + 1] = leases[i]
reply[#reply + 1] = tonumber(leases[i + 1])
reply[#reply + 1] = (semaphore_fact(redis.call('HGET', s.facts, leases[i])))
end
elseif what == 'line' then
local count = redis.call('ZCARD', s.offers)
local seen = {}
for _, id in ipairs(redis.call('ZRANGE', s.line, '0', '-1')) do
local _, party = semaphore_fact(redis.call('HGET', s.facts, id))
if party and seen[party] == nil then
seen[party] = (tonumber(redis.call('ZSCORE', s.parties, party) or nil) or 0) > s.now
end
if party and seen[party] then count = count + 1 end
end
reply[#reply + 1] = count
end
return reply`,
}

export const semaphoreRelease: Script = {
  name: 'semaphore_release',
  sha1: '8b534d0f562c93ec875aa5fa7820fe7731055720',
  source: `local number = ARGV[1]
local clock = ARGV[2]
local initial = tonumber(ARGV[3])
local idle = tonumber(ARGV[4])
local channel = ARGV[5]
local keep = idle >= 0 and math.min(idle, 60000) or 60000
local call, match = redis.call, string.match
local stored = call('HMGET', KEYS[1], 'used', 'calm', 'idle')
local used, calm, lives = tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[3])
if used and calm and calm > 0 and (idle < 0 or idle == lives) then
local reply
if #ARGV == 7 then
local permits, token = match(call('HGET', KEYS[3], ARGV[6]) or '', '^(%d+) %S+ (%d+)$')
if token == ARGV[7] and call('ZREM', KEYS[2], ARGV[6]) == 1 then
call('HDEL', KEYS[3], ARGV[6])
used = used - permits
reply = { 1 }
end
else
local ids, seen = {}, {}
for i = 6, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local facts, deadlines = call('HMGET', KEYS[3], unpack(ids)), call('ZMSCORE', KEYS[2], unpack(ids))
reply = {}
local sum = 0
for i = 1, #ids do
local permits, token = match(facts[i] or '', '^(%d+) %S+ (%d+)$')
if token ~= ARGV[5 + 2 * i] or not deadlines[i] or seen[ids[i]] then
reply = nil
break
end
seen[ids[i]] = true
sum = sum + permits
reply[i] = 1
end
if reply then
call('ZREM', KEYS[2], unpack(ids))
call('HDEL', KEYS[3], unpack(ids))
used = used - sum
end
end
if reply then
call('HSET', KEYS[1], 'used', used)
call('SET', KEYS[7], number .. ' ' .. string.rep('1', #reply), 'PX', keep)
if lives and used == 0 then call('PEXPIRE', KEYS[1], lives) end
return reply
end
end
local function semaphore_read(keys, clock, initial, idle)
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local s = {
micros = micros,
now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
padding = clock == '' and 1000 or 5000,
}
s.config, s.leases, s.facts, s.line, s.offers, s.parties = unpack(keys, 1, 6)
s.stored = redis.call('HMGET', s.config, 'permits', 'used', 'last', 'idle', 'calm', 'life')
s.permits = tonumber(s.stored[1])
if initial < -1 then
s.permits = -2 - initial
elseif not s.permits then
if initial < 0 then return nil end
s.permits = initial
end
s.used = tonumber(s.stored[2])
s.last = tonumber(s.stored[3]) or 0
s.idle = tonumber(s.stored[4])
s.calm = s.used and tonumber(s.stored[5]) or 0
s.life = tonumber(s.stored[6]) or 0
if idle >= 0 then s.idle = idle end
return s
end
local function semaphore_fact(fact)
local permits, party, number = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
return tonumber(permits) or 1, party, number
end
local SEMAPHORE_BATCH = 1000
local function semaphore_sum(s, ids)
local sum = 0
for from = 1, #ids, SEMAPHORE_BATCH do
local facts = redis.call('HMGET', s.facts, unpack(ids, from, math.min(#ids, from + SEMAPHORE_BATCH - 1)))
for _, fact in ipairs(facts) do sum = sum + (fact and tonumber(string.match(fact, '^%d+')) or 1) end
end
return sum
end
local function semaphore_sweep(s)
s.crowded = redis.call('EXISTS', s.line, s.offers) > 0
local lease = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
local offer = s.crowded and tonumber(redis.call('ZRANGE', s.offers, '0', '0', 'WITHSCORES')[2])
if not lease and not offer then
s.used = 0
return s
end
if not s.used then
s.used = semaphore_sum(s, redis.call('ZRANGE', s.leases, '0', '-1'))
+ semaphore_sum(s, redis.call('ZRANGE', s.offers, '0', '-1'))
end
while lease and lease <= s.now do
local over = redis.call('ZRANGEBYSCORE', s.leases, '-inf', s.now, 'LIMIT', '0', SEMAPHORE_BATCH)
if #over == 0 then break end
s.used = s.used - semaphore_sum(s, over)
redis.call('ZREMRANGEBYRANK', s.leases, '0', #over - 1)
redis.call('HDEL', s.facts, unpack(over))
end
if offer and offer <= s.now then
for _, id in ipairs(redis.call('ZRANGEBYSCORE', s.offers, '-inf', s.now)) do
local permits, party, place = semaphore_fact(redis.call('HGET', s.facts, id))
s.used = s.used - permits
redis.call('ZREM', s.offers, id)
if party then
redis.call('ZADD', s.line, place, id)
redis.call('ZADD', s.parties, 'XX', s.now, party)
end
end
end
return s
end
local function semaphore_open(keys, clock, initial, idle)
local s = semaphore_read(keys, clock, initial, idle)
return s and semaphore_sweep(s)
end
local function semaphore_tell(channel, party, text)
local process, number = string.match(party, '^(.*)/(.*)$')
local ear = channel .. process
redis.call('PUBLISH', ear, number .. ' ' .. text)
end
local SEMAPHORE_OFFER_MS = 500
local function semaphore_offer(s, channel, asking)
if not s.crowded then return end
local to
while s.used < s.permits do
local id = redis.call('ZRANGE', s.line, '0', '0')[1]
if not id then break end
local permits, party = semaphore_fact(redis.call('HGET', s.facts, id))
local seen = party and tonumber(redis.call('ZSCORE', s.parties, party) or nil)
s.left = true
if not seen or seen <= s.now then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
if party then redis.call('ZREM', s.parties, party) end
elseif permits > s.permits then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
semaphore_tell(channel, party, id)
elseif permits > s.permits - s.used then
break
else
redis.call('ZREM', s.line, id)
redis.call('ZADD', s.offers, s.now + SEMAPHORE_OFFER_MS, id)
s.used = s.used + permits
if id ~= asking then
semaphore_tell(channel, party, id)
to = party
end
end
end
if not to then return end
local _, watcher = semaphore_fact(redis.call('HGET', s.facts, redis.call('ZRANGE', s.line, '0', '0')[1] or ''))
if watcher and watcher ~= to then semaphore_tell(channel, watcher, '!') end
end
local SEMAPHORE_FIELDS = { 'permits', 'used', 'last', 'idle', 'calm', 'life' }
local function semaphore_put(s)
local changed = {}
for i, field in ipairs(SEMAPHORE_FIELDS) do
local value = s[field]
if value and value ~= tonumber(s.stored[i]) then
changed[#changed + 1] = field
changed[#changed + 1] = value
end
end
if #changed > 0 then redis.call('HSET', s.config, unpack(changed)) end
end
local SEMAPHORE_LINE_MS = 10000
local function semaphore_save(s)
local lives = 0
local latest = s.used ~= 0 and tonumber(redis.call('ZRANGE', s.leases, '-1', '-1', 'WITHSCORES')[2])
s.calm = s.now + 1000000000
if latest then
lives = math.max(0, latest - s.now) + s.padding
redis.call('PEXPIRE', s.leases, lives)
s.calm = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
end
if s.crowded and redis.call('EXISTS', s.line, s.offers) > 0 then
s.calm = 0
lives = math.max(lives, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.line, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.offers, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.parties, SEMAPHORE_LINE_MS)
elseif s.left then
redis.call('DEL', s.parties)
end
if lives > 0 then redis.call('PEXPIRE', s.facts, lives) end
s.life = s.now + lives
semaphore_put(s)
if s.idle then redis.call('PEXPIRE', s.config, lives + s.idle) end
end
local sent, answered = match(call('GET', KEYS[7]) or '', '^(%d+) (%d+)$')
if sent == number then
local reply = {}
for ended in string.gmatch(answered, '%d') do reply[#reply + 1] = tonumber(ended) end
return reply
end
local s = semaphore_open(KEYS, clock, initial, idle)
if not s then return { -2 } end
local function finish(id, what)
local fact = redis.call('HGET', s.facts, id)
local permits, party, stamp = semaphore_fact(fact)
local ended = 0
if fact and (what == stamp or what == 'force' or what == 'any') then
ended = redis.call('ZREM', s.leases, id)
s.used = s.used - permits * ended
if ended == 1 and what == 'force' then semaphore_tell(channel, party, '?') end
end
if fact and ended == 0 and (what == 'any' or what == 'wait' and not redis.call('ZSCORE', s.leases, id)) then
s.used = s.used - permits * redis.call('ZREM', s.offers, id)
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
s.left = true
end
if ended == 1 then redis.call('HDEL', s.facts, id) end
return ended
end
local reply, changed = {}, false
for i = 6, #ARGV, 2 do
local ended = finish(ARGV[i], ARGV[i + 1])
changed = changed or ended == 1
reply[#reply + 1] = ended
end
semaphore_offer(s, channel, '')
semaphore_save(s)
if changed then redis.call('SET', KEYS[7], number .. ' ' .. table.concat(reply), 'PX', keep) end
return reply`,
}

export const semaphoreRenew: Script = {
  name: 'semaphore_renew',
  sha1: '0633a96d2c49cd63845f5ae3fdc302b032923eb1',
  source: `local function semaphore_read(keys, clock, initial, idle)
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local s = {
micros = micros,
now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
padding = clock == '' and 1000 or 5000,
}
s.config, s.leases, s.facts, s.line, s.offers, s.parties = unpack(keys, 1, 6)
s.stored = redis.call('HMGET', s.config, 'permits', 'used', 'last', 'idle', 'calm', 'life')
s.permits = tonumber(s.stored[1])
if initial < -1 then
s.permits = -2 - initial
elseif not s.permits then
if initial < 0 then return nil end
s.permits = initial
end
s.used = tonumber(s.stored[2])
s.last = tonumber(s.stored[3]) or 0
s.idle = tonumber(s.stored[4])
s.calm = s.used and tonumber(s.stored[5]) or 0
s.life = tonumber(s.stored[6]) or 0
if idle >= 0 then s.idle = idle end
return s
end
local function semaphore_fact(fact)
local permits, party, number = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
return tonumber(permits) or 1, party, number
end
local SEMAPHORE_BATCH = 1000
local function semaphore_sum(s, ids)
local sum = 0
for from = 1, #ids, SEMAPHORE_BATCH do
local facts = redis.call('HMGET', s.facts, unpack(ids, from, math.min(#ids, from + SEMAPHORE_BATCH - 1)))
for _, fact in ipairs(facts) do sum = sum + (fact and tonumber(string.match(fact, '^%d+')) or 1) end
end
return sum
end
local function semaphore_sweep(s)
s.crowded = redis.call('EXISTS', s.line, s.offers) > 0
local lease = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
local offer = s.crowded and tonumber(redis.call('ZRANGE', s.offers, '0', '0', 'WITHSCORES')[2])
if not lease and not offer then
s.used = 0
return s
end
if not s.used then
s.used = semaphore_sum(s, redis.call('ZRANGE', s.leases, '0', '-1'))
+ semaphore_sum(s, redis.call('ZRANGE', s.offers, '0', '-1'))
end
while lease and lease <= s.now do
local over = redis.call('ZRANGEBYSCORE', s.leases, '-inf', s.now, 'LIMIT', '0', SEMAPHORE_BATCH)
if #over == 0 then break end
s.used = s.used - semaphore_sum(s, over)
redis.call('ZREMRANGEBYRANK', s.leases, '0', #over - 1)
redis.call('HDEL', s.facts, unpack(over))
end
if offer and offer <= s.now then
for _, id in ipairs(redis.call('ZRANGEBYSCORE', s.offers, '-inf', s.now)) do
local permits, party, place = semaphore_fact(redis.call('HGET', s.facts, id))
s.used = s.used - permits
redis.call('ZREM', s.offers, id)
if party then
redis.call('ZADD', s.line, place, id)
redis.call('ZADD', s.parties, 'XX', s.now, party)
end
end
end
return s
end
local function semaphore_open(keys, clock, initial, idle)
local s = semaphore_read(keys, clock, initial, idle)
return s and semaphore_sweep(s)
end
local SEMAPHORE_FIELDS = { 'permits', 'used', 'last', 'idle', 'calm', 'life' }
local function semaphore_put(s)
local changed = {}
for i, field in ipairs(SEMAPHORE_FIELDS) do
local value = s[field]
if value and value ~= tonumber(s.stored[i]) then
changed[#changed + 1] = field
changed[#changed + 1] = value
end
end
if #changed > 0 then redis.call('HSET', s.config, unpack(changed)) end
end
local SEMAPHORE_LINE_MS = 10000
local function semaphore_save(s)
local lives = 0
local latest = s.used ~= 0 and tonumber(redis.call('ZRANGE', s.leases, '-1', '-1', 'WITHSCORES')[2])
s.calm = s.now + 1000000000
if latest then
lives = math.max(0, latest - s.now) + s.padding
redis.call('PEXPIRE', s.leases, lives)
s.calm = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
end
if s.crowded and redis.call('EXISTS', s.line, s.offers) > 0 then
s.calm = 0
lives = math.max(lives, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.line, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.offers, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.parties, SEMAPHORE_LINE_MS)
elseif s.left then
redis.call('DEL', s.parties)
end
if lives > 0 then redis.call('PEXPIRE', s.facts, lives) end
s.life = s.now + lives
semaphore_put(s)
if s.idle then redis.call('PEXPIRE', s.config, lives + s.idle) end
end
local semaphores = tonumber(ARGV[1])
local at = 2
local reply = {}
for i = 1, semaphores do
local clock, idle, count = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
at = at + 3
local s = semaphore_open({ unpack(KEYS, i * 6 - 5, i * 6) }, clock, -1, idle)
for _ = 1, count do
local id, token, ms = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
at = at + 3
local deadline = s and tonumber(redis.call('ZSCORE', s.leases, id) or nil)
if deadline then
local _, _, stamp = semaphore_fact(redis.call('HGET', s.facts, id))
if stamp ~= token then
deadline = -1
elseif ms > 0 then
deadline = s.now + ms
redis.call('ZADD', s.leases, deadline, id)
end
end
reply[#reply + 1] = deadline or -1
end
if s then semaphore_save(s) end
end
return reply`,
}

export const semaphoreResume: Script = {
  name: 'semaphore_resume',
  sha1: '22b6de33fbe7bec999057f422f4ec4ed8202db69',
  source: `local function semaphore_read(keys, clock, initial, idle)
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local s = {
micros = micros,
now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
padding = clock == '' and 1000 or 5000,
}
s.config, s.leases, s.facts, s.line, s.offers, s.parties = unpack(keys, 1, 6)
s.stored = redis.call('HMGET', s.config, 'permits', 'used', 'last', 'idle', 'calm', 'life')
s.permits = tonumber(s.stored[1])
if initial < -1 then
s.permits = -2 - initial
elseif not s.permits then
if initial < 0 then return nil end
s.permits = initial
end
s.used = tonumber(s.stored[2])
s.last = tonumber(s.stored[3]) or 0
s.idle = tonumber(s.stored[4])
s.calm = s.used and tonumber(s.stored[5]) or 0
s.life = tonumber(s.stored[6]) or 0
if idle >= 0 then s.idle = idle end
return s
end
local function semaphore_fact(fact)
local permits, party, number = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
return tonumber(permits) or 1, party, number
end
local SEMAPHORE_BATCH = 1000
local function semaphore_sum(s, ids)
local sum = 0
for from = 1, #ids, SEMAPHORE_BATCH do
local facts = redis.call('HMGET', s.facts, unpack(ids, from, math.min(#ids, from + SEMAPHORE_BATCH - 1)))
for _, fact in ipairs(facts) do sum = sum + (fact and tonumber(string.match(fact, '^%d+')) or 1) end
end
return sum
end
local function semaphore_sweep(s)
s.crowded = redis.call('EXISTS', s.line, s.offers) > 0
local lease = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
local offer = s.crowded and tonumber(redis.call('ZRANGE', s.offers, '0', '0', 'WITHSCORES')[2])
if not lease and not offer then
s.used = 0
return s
end
if not s.used then
s.used = semaphore_sum(s, redis.call('ZRANGE', s.leases, '0', '-1'))
+ semaphore_sum(s, redis.call('ZRANGE', s.offers, '0', '-1'))
end
while lease and lease <= s.now do
local over = redis.call('ZRANGEBYSCORE', s.leases, '-inf', s.now, 'LIMIT', '0', SEMAPHORE_BATCH)
if #over == 0 then break end
s.used = s.used - semaphore_sum(s, over)
redis.call('ZREMRANGEBYRANK', s.leases, '0', #over - 1)
redis.call('HDEL', s.facts, unpack(over))
end
if offer and offer <= s.now then
for _, id in ipairs(redis.call('ZRANGEBYSCORE', s.offers, '-inf', s.now)) do
local permits, party, place = semaphore_fact(redis.call('HGET', s.facts, id))
s.used = s.used - permits
redis.call('ZREM', s.offers, id)
if party then
redis.call('ZADD', s.line, place, id)
redis.call('ZADD', s.parties, 'XX', s.now, party)
end
end
end
return s
end
local function semaphore_open(keys, clock, initial, idle)
local s = semaphore_read(keys, clock, initial, idle)
return s and semaphore_sweep(s)
end
local function semaphore_number(s)
s.last = math.max(s.last + 1, s.micros)
return string.format('%.0f', s.last)
end
local function semaphore_tell(channel, party, text)
local process, number = string.match(party, '^(.*)/(.*)$')
local ear = channel .. process
redis.call('PUBLISH', ear, number .. ' ' .. text)
end
local SEMAPHORE_OFFER_MS = 500
local function semaphore_offer(s, channel, asking)
if not s.crowded then return end
local to
while s.used < s.permits do
local id = redis.call('ZRANGE', s.line, '0', '0')[1]
if not id then break end
local permits, party = semaphore_fact(redis.call('HGET', s.facts, id))
local seen = party and tonumber(redis.call('ZSCORE', s.parties, party) or nil)
s.left = true
if not seen or seen <= s.now then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
if party then redis.call('ZREM', s.parties, party) end
elseif permits > s.permits then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
semaphore_tell(channel, party, id)
elseif permits > s.permits - s.used then
break
else
redis.call('ZREM', s.line, id)
redis.call('ZADD', s.offers, s.now + SEMAPHORE_OFFER_MS, id)
s.used = s.used + permits
if id ~= asking then
semaphore_tell(channel, party, id)
to = party
end
end
end
if not to then return end
local _, watcher = semaphore_fact(redis.call('HGET', s.facts, redis.call('ZRANGE', s.line, '0', '0')[1] or ''))
if watcher and watcher ~= to then semaphore_tell(channel, watcher, '!') end
end
local SEMAPHORE_FIELDS = { 'permits', 'used', 'last', 'idle', 'calm', 'life' }
local function semaphore_put(s)
local changed = {}
for i, field in ipairs(SEMAPHORE_FIELDS) do
local value = s[field]
if value and value ~= tonumber(s.stored[i]) then
changed[#changed + 1] = field
changed[#changed + 1] = value
end
end
if #changed > 0 then redis.call('HSET', s.config, unpack(changed)) end
end
local SEMAPHORE_LINE_MS = 10000
local function semaphore_save(s)
local lives = 0
local latest = s.used ~= 0 and tonumber(redis.call('ZRANGE', s.leases, '-1', '-1', 'WITHSCORES')[2])
s.calm = s.now + 1000000000
if latest then
lives = math.max(0, latest - s.now) + s.padding
redis.call('PEXPIRE', s.leases, lives)
s.calm = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
end
if s.crowded and redis.call('EXISTS', s.line, s.offers) > 0 then
s.calm = 0
lives = math.max(lives, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.line, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.offers, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.parties, SEMAPHORE_LINE_MS)
elseif s.left then
redis.call('DEL', s.parties)
end
if lives > 0 then redis.call('PEXPIRE', s.facts, lives) end
s.life = s.now + lives
semaphore_put(s)
if s.idle then redis.call('PEXPIRE', s.config, lives + s.idle) end
end
local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local id = ARGV[5]
local party = ARGV[6]
local lease = tonumber(ARGV[7])
local s = semaphore_open(KEYS, clock, initial, idle)
if not s then return { -2 } end
local reply = { 0 }
if redis.call('ZSCORE', s.leases, id) then
local permits, former = semaphore_fact(redis.call('HGET', s.facts, id))
local token = semaphore_number(s)
redis.call('ZADD', s.leases, s.now + lease, id)
redis.call('HSET', s.facts, id, permits .. ' ' .. party .. ' ' .. token)
if former then semaphore_tell(channel, former, '?') end
reply = { 1, token, s.now + lease, permits }
end
semaphore_offer(s, channel, '')
semaphore_save(s)
return reply`,
}

export const semaphoreSet: Script = {
  name: 'semaphore_set',
  sha1: 'b0278ddc1b3a5ca846b568ae4ea7e37b66b2b4c0',
  source: `local function once(sent, number, floor, act, keep)
local newest = redis.call('LINDEX', sent, '-1')
if newest and struct.unpack('>I7', newest) >= number then
for _, entry in ipairs(redis.call('LRANGE', sent, '0', '-1')) do
if struct.unpack('>I7', entry) == number then return cmsgpack.unpack(string.sub(entry, 8)) end
end
end
local reply, changed, life = act()
if not changed then return reply end
if newest then
for _ = 1, 16 do
local oldest = redis.call('LINDEX', sent, '0')
if not oldest or struct.unpack('>I7', oldest) >= floor then break end
redis.call('LPOP', sent)
end
end
redis.call('RPUSH', sent, struct.pack('>I7', number) .. cmsgpack.pack(reply))
life = math.min(life or keep or 60000, 60000)
if redis.call('PTTL', sent) < life then redis.call('PEXPIRE', sent, life) end
return reply
end
local function semaphore_read(keys, clock, initial, idle)
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local s = {
micros = micros,
now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
padding = clock == '' and 1000 or 5000,
}
s.config, s.leases, s.facts, s.line, s.offers, s.parties = unpack(keys, 1, 6)
s.stored = redis.call('HMGET', s.config, 'permits', 'used', 'last', 'idle', 'calm', 'life')
s.permits = tonumber(s.stored[1])
if initial < -1 then
s.permits = -2 - initial
elseif not s.permits then
if initial < 0 then return nil end
s.permits = initial
end
s.used = tonumber(s.stored[2])
s.last = tonumber(s.stored[3]) or 0
s.idle = tonumber(s.stored[4])
s.calm = s.used and tonumber(s.stored[5]) or 0
s.life = tonumber(s.stored[6]) or 0
if idle >= 0 then s.idle = idle end
return s
end
local function semaphore_fact(fact)
local permits, party, number = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
return tonumber(permits) or 1, party, number
end
local SEMAPHORE_BATCH = 1000
local function semaphore_sum(s, ids)
local sum = 0
for from = 1, #ids, SEMAPHORE_BATCH do
local facts = redis.call('HMGET', s.facts, unpack(ids, from, math.min(#ids, from + SEMAPHORE_BATCH - 1)))
for _, fact in ipairs(facts) do sum = sum + (fact and tonumber(string.match(fact, '^%d+')) or 1) end
end
return sum
end
local function semaphore_sweep(s)
s.crowded = redis.call('EXISTS', s.line, s.offers) > 0
local lease = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
local offer = s.crowded and tonumber(redis.call('ZRANGE', s.offers, '0', '0', 'WITHSCORES')[2])
if not lease and not offer then
s.used = 0
return s
end
if not s.used then
s.used = semaphore_sum(s, redis.call('ZRANGE', s.leases, '0', '-1'))
+ semaphore_sum(s, redis.call('ZRANGE', s.offers, '0', '-1'))
end
while lease and lease <= s.now do
local over = redis.call('ZRANGEBYSCORE', s.leases, '-inf', s.now, 'LIMIT', '0', SEMAPHORE_BATCH)
if #over == 0 then break end
s.used = s.used - semaphore_sum(s, over)
redis.call('ZREMRANGEBYRANK', s.leases, '0', #over - 1)
redis.call('HDEL', s.facts, unpack(over))
end
if offer and offer <= s.now then
for _, id in ipairs(redis.call('ZRANGEBYSCORE', s.offers, '-inf', s.now)) do
local permits, party, place = semaphore_fact(redis.call('HGET', s.facts, id))
s.used = s.used - permits
redis.call('ZREM', s.offers, id)
if party then
redis.call('ZADD', s.line, place, id)
redis.call('ZADD', s.parties, 'XX', s.now, party)
end
end
end
return s
end
local function semaphore_open(keys, clock, initial, idle)
local s = semaphore_read(keys, clock, initial, idle)
return s and semaphore_sweep(s)
end
local function semaphore_tell(channel, party, text)
local process, number = string.match(party, '^(.*)/(.*)$')
local ear = channel .. process
redis.call('PUBLISH', ear, number .. ' ' .. text)
end
local SEMAPHORE_OFFER_MS = 500
local function semaphore_offer(s, channel, asking)
if not s.crowded then return end
local to
while s.used < s.permits do
local id = redis.call('ZRANGE', s.line, '0', '0')[1]
if not id then break end
local permits, party = semaphore_fact(redis.call('HGET', s.facts, id))
local seen = party and tonumber(redis.call('ZSCORE', s.parties, party) or nil)
s.left = true
if not seen or seen <= s.now then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
if party then redis.call('ZREM', s.parties, party) end
elseif permits > s.permits then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
semaphore_tell(channel, party, id)
elseif permits > s.permits - s.used then
break
else
redis.call('ZREM', s.line, id)
redis.call('ZADD', s.offers, s.now + SEMAPHORE_OFFER_MS, id)
s.used = s.used + permits
if id ~= asking then
semaphore_tell(channel, party, id)
to = party
end
end
end
if not to then return end
local _, watcher = semaphore_fact(redis.call('HGET', s.facts, redis.call('ZRANGE', s.line, '0', '0')[1] or ''))
if watcher and watcher ~= to then semaphore_tell(channel, watcher, '!') end
end
local SEMAPHORE_FIELDS = { 'permits', 'used', 'last', 'idle', 'calm', 'life' }
local function semaphore_put(s)
local changed = {}
for i, field in ipairs(SEMAPHORE_FIELDS) do
local value = s[field]
if value and value ~= tonumber(s.stored[i]) then
changed[#changed + 1] = field
changed[#changed + 1] = value
end
end
if #changed > 0 then redis.call('HSET', s.config, unpack(changed)) end
end
local SEMAPHORE_LINE_MS = 10000
local function semaphore_save(s)
local lives = 0
local latest = s.used ~= 0 and tonumber(redis.call('ZRANGE', s.leases, '-1', '-1', 'WITHSCORES')[2])
s.calm = s.now + 1000000000
if latest then
lives = math.max(0, latest - s.now) + s.padding
redis.call('PEXPIRE', s.leases, lives)
s.calm = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
end
if s.crowded and redis.call('EXISTS', s.line, s.offers) > 0 then
s.calm = 0
lives = math.max(lives, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.line, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.offers, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.parties, SEMAPHORE_LINE_MS)
elseif s.left then
redis.call('DEL', s.parties)
end
if lives > 0 then redis.call('PEXPIRE', s.facts, lives) end
s.life = s.now + lives
semaphore_put(s)
if s.idle then redis.call('PEXPIRE', s.config, lives + s.idle) end
end
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local clock = ARGV[3]
local initial = tonumber(ARGV[4])
local idle = tonumber(ARGV[5])
local channel = ARGV[6]
local verb = ARGV[7]
local permits = tonumber(ARGV[8])
local function set()
local absent = redis.call('HEXISTS', KEYS[1], 'permits') == 0
if verb ~= 'add' then initial = permits end
local s = semaphore_open(KEYS, clock, initial, idle)
if not s then return { -2 } end
local before = s.permits
if verb == 'set' then s.permits = permits end
if verb == 'add' then s.permits = math.max(0, before + permits) end
semaphore_offer(s, channel, '')
semaphore_save(s)
if s.permits < before then
for _, party in ipairs(redis.call('ZRANGE', s.parties, '0', '-1')) do semaphore_tell(channel, party, '*') end
end
local done = verb ~= 'try' or absent
return { done and 1 or 0, s.permits }, done
end
return once(KEYS[7], number, floor, set, idle >= 0 and idle or nil)`,
}

export const semaphoreTick: Script = {
  name: 'semaphore_tick',
  sha1: 'ef943dfac2cd49388c688f3a4bc00ccb4cf94cdb',
  source: `local function semaphore_read(keys, clock, initial, idle)
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local s = {
micros = micros,
now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
padding = clock == '' and 1000 or 5000,
}
s.config, s.leases, s.facts, s.line, s.offers, s.parties = unpack(keys, 1, 6)
s.stored = redis.call('HMGET', s.config, 'permits', 'used', 'last', 'idle', 'calm', 'life')
s.permits = tonumber(s.stored[1])
if initial < -1 then
s.permits = -2 - initial
elseif not s.permits then
if initial < 0 then return nil end
s.permits = initial
end
s.used = tonumber(s.stored[2])
s.last = tonumber(s.stored[3]) or 0
s.idle = tonumber(s.stored[4])
s.calm = s.used and tonumber(s.stored[5]) or 0
s.life = tonumber(s.stored[6]) or 0
if idle >= 0 then s.idle = idle end
return s
end
local function semaphore_fact(fact)
local permits, party, number = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
return tonumber(permits) or 1, party, number
end
local SEMAPHORE_BATCH = 1000
local function semaphore_sum(s, ids)
local sum = 0
for from = 1, #ids, SEMAPHORE_BATCH do
local facts = redis.call('HMGET', s.facts, unpack(ids, from, math.min(#ids, from + SEMAPHORE_BATCH - 1)))
for _, fact in ipairs(facts) do sum = sum + (fact and tonumber(string.match(fact, '^%d+')) or 1) end
end
return sum
end
local function semaphore_sweep(s)
s.crowded = redis.call('EXISTS', s.line, s.offers) > 0
local lease = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
local offer = s.crowded and tonumber(redis.call('ZRANGE', s.offers, '0', '0', 'WITHSCORES')[2])
if not lease and not offer then
s.used = 0
return s
end
if not s.used then
s.used = semaphore_sum(s, redis.call('ZRANGE', s.leases, '0', '-1'))
+ semaphore_sum(s, redis.call('ZRANGE', s.offers, '0', '-1'))
end
while lease and lease <= s.now do
local over = redis.call('ZRANGEBYSCORE', s.leases, '-inf', s.now, 'LIMIT', '0', SEMAPHORE_BATCH)
if #over == 0 then break end
s.used = s.used - semaphore_sum(s, over)
redis.call('ZREMRANGEBYRANK', s.leases, '0', #over - 1)
redis.call('HDEL', s.facts, unpack(over))
end
if offer and offer <= s.now then
for _, id in ipairs(redis.call('ZRANGEBYSCORE', s.offers, '-inf', s.now)) do
local permits, party, place = semaphore_fact(redis.call('HGET', s.facts, id))
s.used = s.used - permits
redis.call('ZREM', s.offers, id)
if party then
redis.call('ZADD', s.line, place, id)
redis.call('ZADD', s.parties, 'XX', s.now, party)
end
end
end
return s
end
local function semaphore_open(keys, clock, initial, idle)
local s = semaphore_read(keys, clock, initial, idle)
return s and semaphore_sweep(s)
end
local function semaphore_alive(s, party)
local waiting = redis.call('ZCARD', s.parties)
local pause = math.min(5000, math.max(900, 600 * waiting))
redis.call('ZADD', s.parties, s.now + pause * 2.5, party)
return pause
end
local function semaphore_tell(channel, party, text)
local process, number = string.match(party, '^(.*)/(.*)$')
local ear = channel .. process
redis.call('PUBLISH', ear, number .. ' ' .. text)
end
local SEMAPHORE_OFFER_MS = 500
local function semaphore_offer(s, channel, asking)
if not s.crowded then return end
local to
while s.used < s.permits do
local id = redis.call('ZRANGE', s.line, '0', '0')[1]
if not id then break end
local permits, party = semaphore_fact(redis.call('HGET', s.facts, id))
local seen = party and tonumber(redis.call('ZSCORE', s.parties, party) or nil)
s.left = true
if not seen or seen <= s.now then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
if party then redis.call('ZREM', s.parties, party) end
elseif permits > s.permits then
redis.call('ZREM', s.line, id)
redis.call('HDEL', s.facts, id)
semaphore_tell(channel, party, id)
elseif permits > s.permits - s.used then
break
else
redis.call('ZREM', s.line, id)
redis.call('ZADD', s.offers, s.now + SEMAPHORE_OFFER_MS, id)
s.used = s.used + permits
if id ~= asking then
semaphore_tell(channel, party, id)
to = party
end
end
end
if not to then return end
local _, watcher = semaphore_fact(redis.call('HGET', s.facts, redis.call('ZRANGE', s.line, '0', '0')[1] or ''))
if watcher and watcher ~= to then semaphore_tell(channel, watcher, '!') end
end
local SEMAPHORE_FIELDS = { 'permits', 'used', 'last', 'idle', 'calm', 'life' }
local function semaphore_put(s)
local changed = {}
for i, field in ipairs(SEMAPHORE_FIELDS) do
local value = s[field]
if value and value ~= tonumber(s.stored[i]) then
changed[#changed + 1] = field
changed[#changed + 1] = value
end
end
if #changed > 0 then redis.call('HSET', s.config, unpack(changed)) end
end
local SEMAPHORE_LINE_MS = 10000
local function semaphore_save(s)
local lives = 0
local latest = s.used ~= 0 and tonumber(redis.call('ZRANGE', s.leases, '-1', '-1', 'WITHSCORES')[2])
s.calm = s.now + 1000000000
if latest then
lives = math.max(0, latest - s.now) + s.padding
redis.call('PEXPIRE', s.leases, lives)
s.calm = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
end
if s.crowded and redis.call('EXISTS', s.line, s.offers) > 0 then
s.calm = 0
lives = math.max(lives, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.line, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.offers, SEMAPHORE_LINE_MS)
redis.call('PEXPIRE', s.parties, SEMAPHORE_LINE_MS)
elseif s.left then
redis.call('DEL', s.parties)
end
if lives > 0 then redis.call('PEXPIRE', s.facts, lives) end
s.life = s.now + lives
semaphore_put(s)
if s.idle then redis.call('PEXPIRE', s.config, lives + s.idle) end
end
local function semaphore_next(s)
local lease = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
local offer = tonumber(redis.call('ZRANGE', s.offers, '0', '0', 'WITHSCORES')[2])
local first = math.min(lease or math.huge, offer or math.huge)
return first == math.huge and -1 or math.max(0, first - s.now)
end
local clock = ARGV[1]
local initial = tonumber(ARGV[2])
local idle = tonumber(ARGV[3])
local channel = ARGV[4]
local party = ARGV[5]
local oldest = ARGV[6]
local s = semaphore_open(KEYS, clock, initial, idle)
if not s then return { 0, -1, 0 } end
local known = redis.call('ZSCORE', s.line, oldest) or redis.call('ZSCORE', s.offers, oldest)
local pause = known and semaphore_alive(s, party) or 0
semaphore_offer(s, channel, '')
semaphore_save(s)
local reply = { known and 1 or 0, semaphore_next(s), pause }
for _, id in ipairs(redis.call('ZRANGE', s.offers, '0', '-1')) do
local _, whose = semaphore_fact(redis.call('HGET', s.facts, id))
if whose == party and #reply < 103 then reply[#reply + 1] = id end
end
return reply`,
}

export const settle: Script = {
  name: 'settle',
  sha1: '6d9104bb588eacb50adafa43f7e97f3b992fe533',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function read_limits(first, count)
local limits = {}
for i = 1, count do
limits[i] = {
algorithm = ARGV[first],
quota = tonumber(ARGV[first + 1]),
window = tonumber(ARGV[first + 2]),
burst = tonumber(ARGV[first + 3]),
}
first = first + 4
end
return limits, first
end
local function expiry(clock, now)
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
return function(reset)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
return text
end
end
local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local function load_rows(keys, at, x, y, errors)
local count = #keys
if count == 0 then return end
local values = redis.call('MGET', unpack(keys))
local missing, places = {}, {}
for i = 1, count do
local value = values[i]
if not value then
missing[#missing + 1] = keys[i]
places[#places + 1] = i
x[i], y[i] = 0, 0
elseif #value ~= 24 then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
else
at[i], x[i], y[i] = struct.unpack('<ddd', value)
if math.floor(at[i]) ~= at[i] or math.abs(at[i]) > 9007199254740992 or not (x[i] >= 0 and y[i] >= 0) then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
end
end
if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
for i, key in ipairs(missing) do
local kind = redis.call('TYPE', key).ok
if kind ~= 'none' then errors[places[i]] = 'WRONGTYPE the key holds a ' .. kind end
end
end
local function save_rows(slots, keys, at, x, y, expire_at)
if #slots == 0 then return end
local pairs_of = {}
for i = 1, #slots do
local slot = slots[i]
pairs_of[2 * i - 1] = keys[slot]
pairs_of[2 * i] = struct.pack('<ddd', at[slot], x[slot], y[slot])
end
redis.call('MSET', unpack(pairs_of))
for i = 1, #slots do
local slot = slots[i]
redis.call('PEXPIREAT', keys[slot], expire_at[slot])
end
end
local function fixed_window(limit, now, cost, at, x)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
next_at, next_x, next_y = at, x, 0
retry, delay = 0, 0
if at then
if at > now then
next_at = now
elseif at - now + window <= 0 then
next_at, next_x = nil, 0
end
end
if cost > quota then
retry = -1
elseif cost > 0 and next_x + cost > quota then
retry = next_at - now + window
elseif cost > 0 then
next_at = next_at or now
next_x = next_x + cost
end
remaining = next_x < quota and quota - next_x or 0
reset = next_at and next_at - now + window or 0
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function bucket(limit, now, cost, at, x, y)
local quota, window, burst, shaped = limit.quota, limit.window, limit.burst, limit.algorithm == 'leaky-bucket'
local retry, remaining, reset, delay, next_at, next_x, next_y
local most, found = 0, 0
if quota > 0 then
most = burst
if at then
found = x
if now > at then found = x - quota * (now - at) end
if found < 0 then found = 0 end
end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
local over = found - (most - cost) * window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, quota)
else
after = found + cost * window
next_at, next_x, next_y = now, after, quota
if shaped then delay = ceil_div(found, quota) end
end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
remaining = left / window
remaining = remaining - remaining % 1
if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
reset = after / quota
reset = reset - reset % 1
if reset * quota > after then reset = reset - 1 end
if reset * quota < after then reset = reset + 1 end
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function roll_cells(quota, window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, x, y)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
local cell, inside, before = roll_cells(quota, window, now, at, x, y)
local overlap = cell - now + window
local room = quota - cost - inside
retry, reset, delay = 0, 0, 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
remaining = quota - inside - ceil_div(before * overlap, window)
if remaining < 0 then remaining = 0 end
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
if retry == 0 and cost > 0 or at and at > cell then
next_at, next_x, next_y = cell, inside, before
else
next_at, next_x, next_y = at, x, y
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), limit.quota
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), limit.quota
end
local function log_pack(at, total)
if total < 65536 then return struct.pack('>I6I2', at, total) end
if total < 16777216 then return struct.pack('>I6I3', at, total) end
if total < 4294967296 then return struct.pack('>I6I4', at, total) end
return struct.pack('>I6I7', at, total)
end
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
return struct.unpack(log_formats[#entry], entry)
end
local function log_search(key, low, high, test)
local found_at, found_total
while low < high do
local middle = math.floor((low + high) / 2)
local at, total = log_unpack(redis.call('LINDEX', key, middle))
if test(at, total) then
high, found_at, found_total = middle, at, total
else
low = middle + 1
end
end
return high, found_at, found_total
end
local function log_open(key, window, now, writable)
local head = redis.pcall('LRANGE', key, '0', '1')
if head.err then return head end
if not head[1] then return { gone = 0, total = 0, booked = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local booked, gone = log_unpack(head[1])
local log = { gone = gone, booked = booked, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
local last = redis.call('LINDEX', key, '-1')
if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' } end
log.newest, log.total = log_unpack(last)
if log.newest > now and booked < log.newest then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, '0', from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('LSET', key, '0', log_pack(0, gone))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, booked = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, '-1')
if booked > now then redis.call('LSET', key, '0', log_pack(booked, before)) end
log.first = 1
end
end
return log
end
local function log_refund(key, log, cost, expire_at)
if not log.newest or cost == 0 then return end
local total = math.max(log.gone, log.total - cost)
if total == log.gone then
redis.call('DEL', key)
return
end
local index, at, reached = log_search(key, 1, redis.call('LLEN', key), function(_, sum) return sum >= total end)
redis.call('LTRIM', key, '0', index)
if reached > total then redis.call('LSET', key, '-1', log_pack(at, total)) end
redis.call('PEXPIREAT', key, expire_at)
end
local function log_rebase(key, log)
local gone = log.gone
if log.stored then
local entries = redis.call('LRANGE', key, '0', '-1')
redis.call('DEL', key)
redis.call('RPUSH', key, log_pack(log.booked, 0))
for i = 2, #entries do
local at, total = log_unpack(entries[i])
redis.call('RPUSH', key, log_pack(at, total - gone))
end
end
log.gone, log.total = 0, log.total - gone
if log.oldest then log.oldest_total = log.oldest_total - gone end
end
local function log_book(key, log, now, at, cost, expire_at)
if log.rubbish then redis.call('DEL', key) end
log.rubbish = nil
if log.total + cost > 9007199254740991 then log_rebase(key, log) end
log.total = math.min(log.total + cost, 9007199254740991)
local entry = log_pack(at, log.total)
local booked = at > now and at or 0
if not log.stored then
redis.call('RPUSH', key, log_pack(booked, log.gone), entry)
else
if log.stored == at then
redis.call('LSET', key, '-1', entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('LSET', key, '0', log_pack(booked, log.gone))
end
if not log.oldest then log.oldest, log.first = at, 1 end
if log.oldest == at then log.oldest_total = log.total end
log.stored, log.newest, log.booked = at, at, booked
redis.call('PEXPIREAT', key, expire_at)
end
local function sliding_window(limit, now, cost, key, log)
local spent = log.total - log.gone
local reset = log.newest and log.newest - now + limit.window or 0
if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, limit.window, 0 end
if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
local enough = log.total - (limit.quota - cost)
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function standing(limit, key, now, clock, expires_at)
expires_at = expires_at or expiry(clock, now)
local measure_row = row_measures[limit.algorithm]
if measure_row then
local at, x, y, errors = {}, {}, {}, {}
load_rows({ key }, at, x, y, errors)
local function charge(cost) at[1], x[1], y[1] = charge_row(limit, now, cost, at[1], x[1], y[1]) end
return {
err = errors[1],
measure = function(cost)
local retry, remaining, reset, delay = measure_row(limit, now, cost, at[1], x[1], y[1])
if retry > 0 and limit.algorithm == 'leaky-bucket' then
delay = ceil_div((limit.burst - cost) * limit.window, limit.quota)
end
return retry < 0 and -1 or retry + delay, remaining, reset
end,
book = charge,
charge = charge,
refund = function(cost)
local new_at, new_x, new_y = refund_row(limit, now, cost, at[1], x[1], y[1])
if new_at then at[1], x[1], y[1] = new_at, new_x, new_y end
end,
save = function()
if not at[1] then return end
local _, _, reset = measure_row(limit, now, 0, at[1], x[1], y[1])
save_rows({ 1 }, { key }, at, x, y, { expires_at(reset) })
end,
}
end
local log = log_open(key, limit.window, now, true)
return {
err = log.err,
measure = function(cost) return sliding_window(limit, now, cost, key, log) end,
book = function(cost, wait) log_book(key, log, now, now + wait, cost, expires_at(wait + limit.window)) end,
charge = function(cost)
local at = math.max(now, log.newest or now)
log_book(key, log, now, at, cost, expires_at(at - now + limit.window))
end,
refund = function(cost)
if not log.newest then return end
log_refund(key, log, cost, expires_at(math.max(0, log.newest - now) + limit.window))
log = log_open(key, limit.window, now, true)
end,
save = function() end,
}
end
local function waiting_now(list, now)
local waiting = {}
local gone = 0
for _, packed in ipairs(redis.call('LRANGE', list, '0', '-1')) do
local turn, cost = struct.unpack('>I6I7', packed)
if turn <= now then
gone = gone + 1
else
waiting[#waiting + 1] = { turn = turn, cost = cost, id = string.sub(packed, 14) }
end
end
if gone > 0 then redis.call('LTRIM', list, gone, '-1') end
return waiting
end
local function waiter_pack(turn, cost, id)
return struct.pack('>I6I7', turn, cost) .. id
end
local function tell_waiters(waiting, first, channel, word_of)
local words, processes = {}, {}
for i = first, #waiting do
local process, number = string.match(waiting[i].id, '^(.*)/(.*)$')
if not words[process] then
words[process] = {}
processes[#processes + 1] = process
end
table.insert(words[process], number .. ':' .. string.format('%.0f', word_of(waiting[i])))
end
for _, process in ipairs(processes) do
local ear = channel .. process
redis.call('PUBLISH', ear, table.concat(words[process], ' '))
end
end
local function replan(state, list, waiting, first, extra, now, channel, expires_at)
local units = extra
for i = first, #waiting do units = units + waiting[i].cost end
state.refund(units)
redis.call('LTRIM', list, '0', first - 2)
if first == 1 then redis.call('DEL', list) end
for i = first, #waiting do
local waiter = waiting[i]
local wait = state.measure(waiter.cost)
if wait < 0 then wait = waiter.turn - now end
state.book(waiter.cost, wait)
waiter.turn = now + wait
redis.call('RPUSH', list, waiter_pack(waiter.turn, waiter.cost, waiter.id))
end
state.save()
if #waiting > 0 then redis.call('PEXPIREAT', list, expires_at(waiting[#waiting].turn - now)) end
tell_waiters(waiting, first, channel, function(waiter) return waiter.turn - now end)
end
local clock = ARGV[1]
local now = now_ms(clock)
local units = tonumber(ARGV[2])
local channel = ARGV[3]
local count = tonumber(ARGV[4])
local limits = read_limits(5, count)
local states = {}
for i = 1, count do
states[i] = standing(limits[i], KEYS[i], now, clock)
if states[i].err then return redis.error_reply(states[i].err) end
end
for i = 1, count do
local state, list = states[i], KEYS[count + i]
if units > 0 then
state.charge(units)
state.save()
else
replan(state, list, waiting_now(list, now), 1, -units, now, channel, expiry(clock, now))
end
end`,
}

export const tell: Script = {
  name: 'tell',
  sha1: 'f77b6ca5a17381d69304cfd078d92b1346e67002',
  source: `local channel = ARGV[1]
local text = ARGV[2]
return redis.call('PUBLISH', channel, text)`,
}

export const unbook: Script = {
  name: 'unbook',
  sha1: '37069eb86d590bef20d96c313eb99885b2df8552',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function read_limits(first, count)
local limits = {}
for i = 1, count do
limits[i] = {
algorithm = ARGV[first],
quota = tonumber(ARGV[first + 1]),
window = tonumber(ARGV[first + 2]),
burst = tonumber(ARGV[first + 3]),
}
first = first + 4
end
return limits, first
end
local function expiry(clock, now)
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}
return function(reset)
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
return text
end
end
local function floor_div(a, b)
local quotient = math.floor(a / b)
if quotient * b > a then return quotient - 1 end
return quotient
end
local function ceil_div(a, b)
local quotient = floor_div(a, b)
if quotient * b < a then return quotient + 1 end
return quotient
end
local function load_rows(keys, at, x, y, errors)
local count = #keys
if count == 0 then return end
local values = redis.call('MGET', unpack(keys))
local missing, places = {}, {}
for i = 1, count do
local value = values[i]
if not value then
missing[#missing + 1] = keys[i]
places[#places + 1] = i
x[i], y[i] = 0, 0
elseif #value ~= 24 then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
else
at[i], x[i], y[i] = struct.unpack('<ddd', value)
if math.floor(at[i]) ~= at[i] or math.abs(at[i]) > 9007199254740992 or not (x[i] >= 0 and y[i] >= 0) then
errors[i] = 'WRONGTYPE the key holds a value that is not a limit\\'s'
end
end
end
if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
for i, key in ipairs(missing) do
local kind = redis.call('TYPE', key).ok
if kind ~= 'none' then errors[places[i]] = 'WRONGTYPE the key holds a ' .. kind end
end
end
local function save_rows(slots, keys, at, x, y, expire_at)
if #slots == 0 then return end
local pairs_of = {}
for i = 1, #slots do
local slot = slots[i]
pairs_of[2 * i - 1] = keys[slot]
pairs_of[2 * i] = struct.pack('<ddd', at[slot], x[slot], y[slot])
end
redis.call('MSET', unpack(pairs_of))
for i = 1, #slots do
local slot = slots[i]
redis.call('PEXPIREAT', keys[slot], expire_at[slot])
end
end
local function fixed_window(limit, now, cost, at, x)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
next_at, next_x, next_y = at, x, 0
retry, delay = 0, 0
if at then
if at > now then
next_at = now
elseif at - now + window <= 0 then
next_at, next_x = nil, 0
end
end
if cost > quota then
retry = -1
elseif cost > 0 and next_x + cost > quota then
retry = next_at - now + window
elseif cost > 0 then
next_at = next_at or now
next_x = next_x + cost
end
remaining = next_x < quota and quota - next_x or 0
reset = next_at and next_at - now + window or 0
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function bucket(limit, now, cost, at, x, y)
local quota, window, burst, shaped = limit.quota, limit.window, limit.burst, limit.algorithm == 'leaky-bucket'
local retry, remaining, reset, delay, next_at, next_x, next_y
local most, found = 0, 0
if quota > 0 then
most = burst
if at then
found = x
if now > at then found = x - quota * (now - at) end
if found < 0 then found = 0 end
end
end
local after = found
retry, delay, next_at, next_x, next_y = 0, 0, at, x, y
if at and at > now then next_at = now end
if cost > 0 then
local over = found - (most - cost) * window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, quota)
else
after = found + cost * window
next_at, next_x, next_y = now, after, quota
if shaped then delay = ceil_div(found, quota) end
end
end
if quota > 0 and quota < next_y then next_y = quota end
remaining, reset = 0, 0
local left = most * window - after
if left > 0 then
remaining = left / window
remaining = remaining - remaining % 1
if remaining * window > left then remaining = remaining - 1 end
end
if after > 0 then
reset = after / quota
reset = reset - reset % 1
if reset * quota > after then reset = reset - 1 end
if reset * quota < after then reset = reset + 1 end
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local function roll_cells(quota, window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(quota, current)), 0 end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, x, y)
local quota, window = limit.quota, limit.window
local retry, remaining, reset, delay, next_at, next_x, next_y
local cell, inside, before = roll_cells(quota, window, now, at, x, y)
local overlap = cell - now + window
local room = quota - cost - inside
retry, reset, delay = 0, 0, 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
remaining = quota - inside - ceil_div(before * overlap, window)
if remaining < 0 then remaining = 0 end
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
if retry == 0 and cost > 0 or at and at > cell then
next_at, next_x, next_y = cell, inside, before
else
next_at, next_x, next_y = at, x, y
end
return retry, remaining, reset, delay, next_at, next_x, next_y
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), limit.quota
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.quota, limit.window, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), limit.quota
end
local function log_pack(at, total)
if total < 65536 then return struct.pack('>I6I2', at, total) end
if total < 16777216 then return struct.pack('>I6I3', at, total) end
if total < 4294967296 then return struct.pack('>I6I4', at, total) end
return struct.pack('>I6I7', at, total)
end
local log_formats = { [8] = '>I6I2', [9] = '>I6I3', [10] = '>I6I4', [13] = '>I6I7' }
local function log_unpack(entry)
return struct.unpack(log_formats[#entry], entry)
end
local function log_search(key, low, high, test)
local found_at, found_total
while low < high do
local middle = math.floor((low + high) / 2)
local at, total = log_unpack(redis.call('LINDEX', key, middle))
if test(at, total) then
high, found_at, found_total = middle, at, total
else
low = middle + 1
end
end
return high, found_at, found_total
end
local function log_open(key, window, now, writable)
local head = redis.pcall('LRANGE', key, '0', '1')
if head.err then return head end
if not head[1] then return { gone = 0, total = 0, booked = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local booked, gone = log_unpack(head[1])
local log = { gone = gone, booked = booked, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
local last = redis.call('LINDEX', key, '-1')
if not log_formats[#last] then return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' } end
log.newest, log.total = log_unpack(last)
if log.newest > now and booked < log.newest then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, '0', from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('LSET', key, '0', log_pack(0, gone))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, booked = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, '-1')
if booked > now then redis.call('LSET', key, '0', log_pack(booked, before)) end
log.first = 1
end
end
return log
end
local function log_refund(key, log, cost, expire_at)
if not log.newest or cost == 0 then return end
local total = math.max(log.gone, log.total - cost)
if total == log.gone then
redis.call('DEL', key)
return
end
local index, at, reached = log_search(key, 1, redis.call('LLEN', key), function(_, sum) return sum >= total end)
redis.call('LTRIM', key, '0', index)
if reached > total then redis.call('LSET', key, '-1', log_pack(at, total)) end
redis.call('PEXPIREAT', key, expire_at)
end
local function log_rebase(key, log)
local gone = log.gone
if log.stored then
local entries = redis.call('LRANGE', key, '0', '-1')
redis.call('DEL', key)
redis.call('RPUSH', key, log_pack(log.booked, 0))
for i = 2, #entries do
local at, total = log_unpack(entries[i])
redis.call('RPUSH', key, log_pack(at, total - gone))
end
end
log.gone, log.total = 0, log.total - gone
if log.oldest then log.oldest_total = log.oldest_total - gone end
end
local function log_book(key, log, now, at, cost, expire_at)
if log.rubbish then redis.call('DEL', key) end
log.rubbish = nil
if log.total + cost > 9007199254740991 then log_rebase(key, log) end
log.total = math.min(log.total + cost, 9007199254740991)
local entry = log_pack(at, log.total)
local booked = at > now and at or 0
if not log.stored then
redis.call('RPUSH', key, log_pack(booked, log.gone), entry)
else
if log.stored == at then
redis.call('LSET', key, '-1', entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('LSET', key, '0', log_pack(booked, log.gone))
end
if not log.oldest then log.oldest, log.first = at, 1 end
if log.oldest == at then log.oldest_total = log.total end
log.stored, log.newest, log.booked = at, at, booked
redis.call('PEXPIREAT', key, expire_at)
end
local function sliding_window(limit, now, cost, key, log)
local spent = log.total - log.gone
local reset = log.newest and log.newest - now + limit.window or 0
if cost == 0 then return 0, math.max(0, limit.quota - spent), reset, 0 end
if spent + cost <= limit.quota then return 0, limit.quota - spent - cost, limit.window, 0 end
if cost > limit.quota then return -1, math.max(0, limit.quota - spent), reset, 0 end
local enough = log.total - (limit.quota - cost)
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, (log.first or 1) + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function standing(limit, key, now, clock, expires_at)
expires_at = expires_at or expiry(clock, now)
local measure_row = row_measures[limit.algorithm]
if measure_row then
local at, x, y, errors = {}, {}, {}, {}
load_rows({ key }, at, x, y, errors)
local function charge(cost) at[1], x[1], y[1] = charge_row(limit, now, cost, at[1], x[1], y[1]) end
return {
err = errors[1],
measure = function(cost)
local retry, remaining, reset, delay = measure_row(limit, now, cost, at[1], x[1], y[1])
if retry > 0 and limit.algorithm == 'leaky-bucket' then
delay = ceil_div((limit.burst - cost) * limit.window, limit.quota)
end
return retry < 0 and -1 or retry + delay, remaining, reset
end,
book = charge,
charge = charge,
refund = function(cost)
local new_at, new_x, new_y = refund_row(limit, now, cost, at[1], x[1], y[1])
if new_at then at[1], x[1], y[1] = new_at, new_x, new_y end
end,
save = function()
if not at[1] then return end
local _, _, reset = measure_row(limit, now, 0, at[1], x[1], y[1])
save_rows({ 1 }, { key }, at, x, y, { expires_at(reset) })
end,
}
end
local log = log_open(key, limit.window, now, true)
return {
err = log.err,
measure = function(cost) return sliding_window(limit, now, cost, key, log) end,
book = function(cost, wait) log_book(key, log, now, now + wait, cost, expires_at(wait + limit.window)) end,
charge = function(cost)
local at = math.max(now, log.newest or now)
log_book(key, log, now, at, cost, expires_at(at - now + limit.window))
end,
refund = function(cost)
if not log.newest then return end
log_refund(key, log, cost, expires_at(math.max(0, log.newest - now) + limit.window))
log = log_open(key, limit.window, now, true)
end,
save = function() end,
}
end
local function waiting_now(list, now)
local waiting = {}
local gone = 0
for _, packed in ipairs(redis.call('LRANGE', list, '0', '-1')) do
local turn, cost = struct.unpack('>I6I7', packed)
if turn <= now then
gone = gone + 1
else
waiting[#waiting + 1] = { turn = turn, cost = cost, id = string.sub(packed, 14) }
end
end
if gone > 0 then redis.call('LTRIM', list, gone, '-1') end
return waiting
end
local function waiter_pack(turn, cost, id)
return struct.pack('>I6I7', turn, cost) .. id
end
local function tell_waiters(waiting, first, channel, word_of)
local words, processes = {}, {}
for i = first, #waiting do
local process, number = string.match(waiting[i].id, '^(.*)/(.*)$')
if not words[process] then
words[process] = {}
processes[#processes + 1] = process
end
table.insert(words[process], number .. ':' .. string.format('%.0f', word_of(waiting[i])))
end
for _, process in ipairs(processes) do
local ear = channel .. process
redis.call('PUBLISH', ear, table.concat(words[process], ' '))
end
end
local function replan(state, list, waiting, first, extra, now, channel, expires_at)
local units = extra
for i = first, #waiting do units = units + waiting[i].cost end
state.refund(units)
redis.call('LTRIM', list, '0', first - 2)
if first == 1 then redis.call('DEL', list) end
for i = first, #waiting do
local waiter = waiting[i]
local wait = state.measure(waiter.cost)
if wait < 0 then wait = waiter.turn - now end
state.book(waiter.cost, wait)
waiter.turn = now + wait
redis.call('RPUSH', list, waiter_pack(waiter.turn, waiter.cost, waiter.id))
end
state.save()
if #waiting > 0 then redis.call('PEXPIREAT', list, expires_at(waiting[#waiting].turn - now)) end
tell_waiters(waiting, first, channel, function(waiter) return waiter.turn - now end)
end
local key, list = KEYS[1], KEYS[2]
local clock = ARGV[1]
local now = now_ms(clock)
local cost = tonumber(ARGV[2])
local channel = ARGV[3]
local id = ARGV[4]
local limit = read_limits(6, 1)[1]
local state = standing(limit, key, now, clock)
if state.err then return redis.error_reply(state.err) end
local waiting = waiting_now(list, now)
local first = 1
for i, waiter in ipairs(waiting) do
if waiter.id == id then
first = i
table.remove(waiting, i)
break
end
end
replan(state, list, waiting, first, cost, now, channel, expiry(clock, now))`,
}
