// Generated from lua/ by `npm run embed`: change the .lua files, not this one.
import type { Script } from './script.js'

export const block: Script = {
  name: 'block',
  sha1: '9525bb60395305805212351d1df94ef3d2f76d33',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function expiry(clock, now)
local server_now = now
local padding = 1000
if clock ~= '' then
local time = redis.call('TIME')
server_now = time[1] * 1000 + math.floor(time[2] / 1000)
padding = 5000
end
local texts = {}
return function(reset)
local moment = math.ceil((server_now + reset + padding) / 512) * 512
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
for i, list in ipairs(KEYS) do
local member = ARGV[2 + i]
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
  sha1: '9b779512542992f167d219818754d360ac457023',
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
local server_now = now
local padding = 1000
if clock ~= '' then
local time = redis.call('TIME')
server_now = time[1] * 1000 + math.floor(time[2] / 1000)
padding = 5000
end
local texts = {}
return function(reset)
local moment = math.ceil((server_now + reset + padding) / 512) * 512
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
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function fixed_window(limit, now, cost, at, spent)
at = window_start(limit.window, now, at)
if not at then spent = 0 end
local retry = 0
if cost > limit.quota then
retry = -1
elseif cost > 0 and spent + cost > limit.quota then
retry = at - now + limit.window
elseif cost > 0 then
at = at or now
spent = spent + cost
end
return retry, math.max(0, limit.quota - spent), at and at - now + limit.window or 0, 0, at, spent, 0
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function bucket(limit, now, cost, at, level)
local most = limit.quota == 0 and 0 or limit.burst
local found = limit.quota == 0 and 0 or bucket_level(limit, now, at, level)
local after = found
local retry, delay = 0, 0
if at and at > now then at = now end
if cost > 0 then
local over = found - (most - cost) * limit.window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, limit.quota)
else
after = found + cost * limit.window
at, level = now, after
if limit.algorithm == 'leaky-bucket' then delay = ceil_div(found, limit.quota) end
end
end
local left = most * limit.window - after
local remaining = left > 0 and floor_div(left, limit.window) or 0
return retry, remaining, after > 0 and ceil_div(after, limit.quota) or 0, delay, at, level, 0
end
local function roll_cells(limit, now, at, current, previous)
local cell = now - math.fmod(now, limit.window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(limit.quota, current)), 0 end
if at == cell - limit.window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, current, previous)
local quota, window = limit.quota, limit.window
local cell, inside, before = roll_cells(limit, now, at, current, previous)
local overlap = cell - now + window
local room = quota - cost - inside
local retry = 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
local remaining = math.max(0, quota - inside - ceil_div(before * overlap, window))
local reset = 0
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
local spent = retry == 0 and cost > 0
if spent or (at and at > cell) then return retry, remaining, reset, 0, cell, inside, before end
return retry, remaining, reset, 0, at, current, previous
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), 0
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), 0
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
local _, found = log_search(key, log.first + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function standing(limit, key, now, clock)
local expires_at = expiry(clock, now)
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
local key, list = KEYS[1], KEYS[2]
local clock = ARGV[1]
local now = now_ms(clock)
local cost = tonumber(ARGV[2])
local patience = tonumber(ARGV[3])
local id = ARGV[4]
local limit = read_limits(6, 1)[1]
local state = standing(limit, key, now, clock)
if state.err then return redis.error_reply(state.err) end
local wait, remaining, reset, _ = state.measure(cost)
if wait < 0 or (patience >= 0 and wait > patience) then return { wait, remaining, reset } end
state.book(cost, wait)
state.save()
if wait > 0 then
waiting_now(list, now)
redis.call('RPUSH', list, waiter_pack(now + wait, cost, id))
redis.call('PEXPIREAT', list, expiry(clock, now)(wait))
end
_, remaining, reset = state.measure(0)
return { wait, remaining, reset }`,
}

export const consume: Script = {
  name: 'consume',
  sha1: 'ae6cfd780d8cce0b955ed3aca17bd84a88f6284f',
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
local server_now = now
local padding = 1000
if clock ~= '' then
local time = redis.call('TIME')
server_now = time[1] * 1000 + math.floor(time[2] / 1000)
padding = 5000
end
local texts = {}
return function(reset)
local moment = math.ceil((server_now + reset + padding) / 512) * 512
local text = texts[moment]
if not text then
text = string.format('%.0f', moment)
texts[moment] = text
end
return text
end
end
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function fixed_window(limit, now, cost, at, spent)
at = window_start(limit.window, now, at)
if not at then spent = 0 end
local retry = 0
if cost > limit.quota then
retry = -1
elseif cost > 0 and spent + cost > limit.quota then
retry = at - now + limit.window
elseif cost > 0 then
at = at or now
spent = spent + cost
end
return retry, math.max(0, limit.quota - spent), at and at - now + limit.window or 0, 0, at, spent, 0
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
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
local function bucket(limit, now, cost, at, level)
local most = limit.quota == 0 and 0 or limit.burst
local found = limit.quota == 0 and 0 or bucket_level(limit, now, at, level)
local after = found
local retry, delay = 0, 0
if at and at > now then at = now end
if cost > 0 then
local over = found - (most - cost) * limit.window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, limit.quota)
else
after = found + cost * limit.window
at, level = now, after
if limit.algorithm == 'leaky-bucket' then delay = ceil_div(found, limit.quota) end
end
end
local left = most * limit.window - after
local remaining = left > 0 and floor_div(left, limit.window) or 0
return retry, remaining, after > 0 and ceil_div(after, limit.quota) or 0, delay, at, level, 0
end
local function roll_cells(limit, now, at, current, previous)
local cell = now - math.fmod(now, limit.window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(limit.quota, current)), 0 end
if at == cell - limit.window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, current, previous)
local quota, window = limit.quota, limit.window
local cell, inside, before = roll_cells(limit, now, at, current, previous)
local overlap = cell - now + window
local room = quota - cost - inside
local retry = 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
local remaining = math.max(0, quota - inside - ceil_div(before * overlap, window))
local reset = 0
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
local spent = retry == 0 and cost > 0
if spent or (at and at > cell) then return retry, remaining, reset, 0, cell, inside, before end
return retry, remaining, reset, 0, at, current, previous
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
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
local _, found = log_search(key, log.first + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
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
local function log_spend(key, log, now, cost)
if log.total + cost > 9007199254740991 then log_rebase(key, log) end
log.total = log.total + cost
log.newest = now
if not log.oldest or log.oldest == now then log.oldest, log.oldest_total, log.first = now, log.total, log.first or 1 end
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
local function blocked_until(list, member)
return tonumber(redis.call('ZSCORE', list, member) or 0)
end
local function decide_rows(limit, clock, now, spending, one_cost, costs_at)
local measure = row_measures[limit.algorithm]
local shaped = limit.algorithm == 'leaky-bucket'
local expires_at = expiry(clock, now)
local keys = { unpack(KEYS, 2) }
local at, x, y, errors = {}, {}, {}, {}
load_rows(keys, at, x, y, errors)
local slot_of, changed, expire_at = {}, {}, {}
local out, size = { now }, 1
for i = 1, #keys do
local key = keys[i]
local slot = slot_of[key]
if not slot then
slot = i
slot_of[key] = i
end
if errors[slot] then
size = size + 1
out[size] = errors[slot]
else
local cost = one_cost or tonumber(ARGV[costs_at + i - 1])
local was_at, was_x, was_y = at[slot], x[slot], y[slot]
local retry, remaining, reset, delay, new_at, new_x, new_y = measure(limit, now, cost, was_at, was_x, was_y)
if spending and new_at and (new_x ~= was_x or new_at ~= was_at or new_y ~= was_y) then
at[slot], x[slot], y[slot] = new_at, new_x, new_y
if not expire_at[slot] then changed[#changed + 1] = slot end
expire_at[slot] = expires_at(reset)
end
if retry == 0 then
out[size + 1] = remaining
out[size + 2] = reset
size = size + 2
if shaped then
size = size + 1
out[size] = delay
end
else
out[size + 1] = -1 - remaining
out[size + 2] = reset
out[size + 3] = retry
size = size + 3
end
end
end
if #changed > 0 then save_rows(changed, keys, at, x, y, expire_at) end
return out
end
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
local spending = ARGV[3] == '1'
if valid_until and now > valid_until then return { now } end
local limits, costs_at = read_limits(5, tonumber(ARGV[4]))
local one_cost = #ARGV == costs_at and tonumber(ARGV[costs_at])
local width = #limits
local some_blocked = redis.call('EXISTS', unpack(KEYS, 1, width)) > 0
if width == 1 and not some_blocked and row_measures[limits[1].algorithm] then
return decide_rows(limits[1], clock, now, spending, one_cost, costs_at)
end
local keys, slots, slot_of = {}, {}, {}
local at, x, y, logs, errors = {}, {}, {}, {}, {}
local function give_slots(wanted)
for j = 1, width do
if (row_measures[limits[j].algorithm] ~= nil) == wanted then
for i = width + j, #KEYS, width do
local key = KEYS[i]
local slot = slot_of[key]
if not slot then
slot = #keys + 1
keys[slot] = key
slot_of[key] = slot
end
slots[i] = slot
end
end
end
end
give_slots(true)
load_rows(keys, at, x, y, errors)
give_slots(false)
local retry, remaining, reset, delay, next_at, next_x, next_y, until_at = {}, {}, {}, {}, {}, {}, {}, {}
local function measure(j, slot, cost)
local limit = limits[j]
local by_row = row_measures[limit.algorithm]
if by_row then
retry[j], remaining[j], reset[j], delay[j], next_at[j], next_x[j], next_y[j] =
by_row(limit, now, cost, at[slot], x[slot], y[slot])
return
end
local log = logs[slot]
if not log then
log = log_open(keys[slot], limit.window, now, spending)
logs[slot], errors[slot] = log, log.err
if log.err then return end
end
retry[j], remaining[j], reset[j], delay[j] = sliding_window(limit, now, cost, keys[slot], log)
end
local changed_rows, changed_logs, expire_at = {}, {}, {}
local expires_at = expiry(clock, now)
local function commit(j, slot, cost)
local log = logs[slot]
if log then
if cost == 0 then return end
log_spend(keys[slot], log, now, cost)
if not expire_at[slot] then changed_logs[#changed_logs + 1] = slot end
else
local new_at = next_at[j]
if not new_at or (new_at == at[slot] and next_x[j] == x[slot] and next_y[j] == y[slot]) then return end
at[slot], x[slot], y[slot] = new_at, next_x[j], next_y[j]
if not expire_at[slot] then changed_rows[#changed_rows + 1] = slot end
end
expire_at[slot] = expires_at(reset[j])
end
local out = { now }
local size = 1
local function answer(j)
out[size + 2] = reset[j]
local wait = retry[j]
if wait == 0 and until_at[j] <= now then
out[size + 1] = remaining[j]
size = size + 2
if limits[j].algorithm == 'leaky-bucket' then
size = size + 1
out[size] = delay[j]
end
return
end
out[size + 1] = -1 - remaining[j]
if until_at[j] > now and wait >= 0 then wait = -2 - math.max(wait, until_at[j] - now) end
out[size + 3] = wait
size = size + 3
end
local cost = one_cost
for first = width + 1, #KEYS, width do
if not one_cost then cost = tonumber(ARGV[costs_at + (first - 1) / width - 1]) end
local allowed = true
local failure
for j = 1, width do
local i = first + j - 1
local slot = slots[i]
if not errors[slot] then measure(j, slot, cost) end
if errors[slot] then
failure = errors[slot]
break
end
until_at[j] = some_blocked and blocked_until(KEYS[j], KEYS[i]) or 0
if retry[j] ~= 0 or until_at[j] > now then allowed = false end
end
if failure then
size = size + 1
out[size] = failure
else
for j = 1, width do
local slot = slots[first + j - 1]
if not allowed and retry[j] == 0 and cost > 0 then measure(j, slot, 0) end
if spending then commit(j, slot, allowed and cost or 0) end
answer(j)
end
end
end
save_rows(changed_rows, keys, at, x, y, expire_at)
for _, slot in ipairs(changed_logs) do log_save(keys[slot], logs[slot], expire_at[slot]) end
return out`,
}

export const reset: Script = {
  name: 'reset',
  sha1: 'b7616b2852ca3e409aae8171a581cf06255cc1c6',
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
local server_now = now
local padding = 1000
if clock ~= '' then
local time = redis.call('TIME')
server_now = time[1] * 1000 + math.floor(time[2] / 1000)
padding = 5000
end
local texts = {}
return function(reset)
local moment = math.ceil((server_now + reset + padding) / 512) * 512
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
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function fixed_window(limit, now, cost, at, spent)
at = window_start(limit.window, now, at)
if not at then spent = 0 end
local retry = 0
if cost > limit.quota then
retry = -1
elseif cost > 0 and spent + cost > limit.quota then
retry = at - now + limit.window
elseif cost > 0 then
at = at or now
spent = spent + cost
end
return retry, math.max(0, limit.quota - spent), at and at - now + limit.window or 0, 0, at, spent, 0
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function bucket(limit, now, cost, at, level)
local most = limit.quota == 0 and 0 or limit.burst
local found = limit.quota == 0 and 0 or bucket_level(limit, now, at, level)
local after = found
local retry, delay = 0, 0
if at and at > now then at = now end
if cost > 0 then
local over = found - (most - cost) * limit.window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, limit.quota)
else
after = found + cost * limit.window
at, level = now, after
if limit.algorithm == 'leaky-bucket' then delay = ceil_div(found, limit.quota) end
end
end
local left = most * limit.window - after
local remaining = left > 0 and floor_div(left, limit.window) or 0
return retry, remaining, after > 0 and ceil_div(after, limit.quota) or 0, delay, at, level, 0
end
local function roll_cells(limit, now, at, current, previous)
local cell = now - math.fmod(now, limit.window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(limit.quota, current)), 0 end
if at == cell - limit.window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, current, previous)
local quota, window = limit.quota, limit.window
local cell, inside, before = roll_cells(limit, now, at, current, previous)
local overlap = cell - now + window
local room = quota - cost - inside
local retry = 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
local remaining = math.max(0, quota - inside - ceil_div(before * overlap, window))
local reset = 0
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
local spent = retry == 0 and cost > 0
if spent or (at and at > cell) then return retry, remaining, reset, 0, cell, inside, before end
return retry, remaining, reset, 0, at, current, previous
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), 0
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), 0
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
local _, found = log_search(key, log.first + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function standing(limit, key, now, clock)
local expires_at = expiry(clock, now)
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
local function replan(state, list, waiting, first, extra, now, channel, expires_at)
local units = extra
for i = first, #waiting do units = units + waiting[i].cost end
state.refund(units)
local moved, processes = {}, {}
redis.call('LTRIM', list, '0', first - 2)
if first == 1 then redis.call('DEL', list) end
for i = first, #waiting do
local waiter = waiting[i]
local wait = state.measure(waiter.cost)
if wait < 0 then wait = waiter.turn - now end
state.book(waiter.cost, wait)
waiter.turn = now + wait
redis.call('RPUSH', list, waiter_pack(waiter.turn, waiter.cost, waiter.id))
local process, number = string.match(waiter.id, '^(.*)/(.*)$')
if not moved[process] then
moved[process] = {}
processes[#processes + 1] = process
end
table.insert(moved[process], number .. ':' .. string.format('%.0f', wait))
end
state.save()
if #waiting > 0 then redis.call('PEXPIREAT', list, expires_at(waiting[#waiting].turn - now)) end
for _, process in ipairs(processes) do
local ear = channel .. process
redis.call('PUBLISH', ear, table.concat(moved[process], ' '))
end
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

export const settle: Script = {
  name: 'settle',
  sha1: 'a2cea17ad879e3bd217d30edf0ed6342bbde15c9',
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
local server_now = now
local padding = 1000
if clock ~= '' then
local time = redis.call('TIME')
server_now = time[1] * 1000 + math.floor(time[2] / 1000)
padding = 5000
end
local texts = {}
return function(reset)
local moment = math.ceil((server_now + reset + padding) / 512) * 512
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
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function fixed_window(limit, now, cost, at, spent)
at = window_start(limit.window, now, at)
if not at then spent = 0 end
local retry = 0
if cost > limit.quota then
retry = -1
elseif cost > 0 and spent + cost > limit.quota then
retry = at - now + limit.window
elseif cost > 0 then
at = at or now
spent = spent + cost
end
return retry, math.max(0, limit.quota - spent), at and at - now + limit.window or 0, 0, at, spent, 0
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function bucket(limit, now, cost, at, level)
local most = limit.quota == 0 and 0 or limit.burst
local found = limit.quota == 0 and 0 or bucket_level(limit, now, at, level)
local after = found
local retry, delay = 0, 0
if at and at > now then at = now end
if cost > 0 then
local over = found - (most - cost) * limit.window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, limit.quota)
else
after = found + cost * limit.window
at, level = now, after
if limit.algorithm == 'leaky-bucket' then delay = ceil_div(found, limit.quota) end
end
end
local left = most * limit.window - after
local remaining = left > 0 and floor_div(left, limit.window) or 0
return retry, remaining, after > 0 and ceil_div(after, limit.quota) or 0, delay, at, level, 0
end
local function roll_cells(limit, now, at, current, previous)
local cell = now - math.fmod(now, limit.window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(limit.quota, current)), 0 end
if at == cell - limit.window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, current, previous)
local quota, window = limit.quota, limit.window
local cell, inside, before = roll_cells(limit, now, at, current, previous)
local overlap = cell - now + window
local room = quota - cost - inside
local retry = 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
local remaining = math.max(0, quota - inside - ceil_div(before * overlap, window))
local reset = 0
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
local spent = retry == 0 and cost > 0
if spent or (at and at > cell) then return retry, remaining, reset, 0, cell, inside, before end
return retry, remaining, reset, 0, at, current, previous
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), 0
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), 0
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
local _, found = log_search(key, log.first + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function standing(limit, key, now, clock)
local expires_at = expiry(clock, now)
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
local function replan(state, list, waiting, first, extra, now, channel, expires_at)
local units = extra
for i = first, #waiting do units = units + waiting[i].cost end
state.refund(units)
local moved, processes = {}, {}
redis.call('LTRIM', list, '0', first - 2)
if first == 1 then redis.call('DEL', list) end
for i = first, #waiting do
local waiter = waiting[i]
local wait = state.measure(waiter.cost)
if wait < 0 then wait = waiter.turn - now end
state.book(waiter.cost, wait)
waiter.turn = now + wait
redis.call('RPUSH', list, waiter_pack(waiter.turn, waiter.cost, waiter.id))
local process, number = string.match(waiter.id, '^(.*)/(.*)$')
if not moved[process] then
moved[process] = {}
processes[#processes + 1] = process
end
table.insert(moved[process], number .. ':' .. string.format('%.0f', wait))
end
state.save()
if #waiting > 0 then redis.call('PEXPIREAT', list, expires_at(waiting[#waiting].turn - now)) end
for _, process in ipairs(processes) do
local ear = channel .. process
redis.call('PUBLISH', ear, table.concat(moved[process], ' '))
end
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

export const unbook: Script = {
  name: 'unbook',
  sha1: '71fb0dcd813e666c06f88e87e891983aa5de7cdf',
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
local server_now = now
local padding = 1000
if clock ~= '' then
local time = redis.call('TIME')
server_now = time[1] * 1000 + math.floor(time[2] / 1000)
padding = 5000
end
local texts = {}
return function(reset)
local moment = math.ceil((server_now + reset + padding) / 512) * 512
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
local function window_start(window, now, at)
if not at then return nil end
if at > now then return now end
if at - now + window <= 0 then return nil end
return at
end
local function fixed_window(limit, now, cost, at, spent)
at = window_start(limit.window, now, at)
if not at then spent = 0 end
local retry = 0
if cost > limit.quota then
retry = -1
elseif cost > 0 and spent + cost > limit.quota then
retry = at - now + limit.window
elseif cost > 0 then
at = at or now
spent = spent + cost
end
return retry, math.max(0, limit.quota - spent), at and at - now + limit.window or 0, 0, at, spent, 0
end
local function bucket_level(limit, now, at, level)
if not at then return 0 end
return math.max(0, level - limit.quota * math.max(0, now - at))
end
local function bucket(limit, now, cost, at, level)
local most = limit.quota == 0 and 0 or limit.burst
local found = limit.quota == 0 and 0 or bucket_level(limit, now, at, level)
local after = found
local retry, delay = 0, 0
if at and at > now then at = now end
if cost > 0 then
local over = found - (most - cost) * limit.window
if cost > most then
retry = -1
elseif over > 0 then
retry = ceil_div(over, limit.quota)
else
after = found + cost * limit.window
at, level = now, after
if limit.algorithm == 'leaky-bucket' then delay = ceil_div(found, limit.quota) end
end
end
local left = most * limit.window - after
local remaining = left > 0 and floor_div(left, limit.window) or 0
return retry, remaining, after > 0 and ceil_div(after, limit.quota) or 0, delay, at, level, 0
end
local function roll_cells(limit, now, at, current, previous)
local cell = now - math.fmod(now, limit.window)
if not at then return cell, 0, 0 end
if at == cell then return cell, current, previous end
if at > cell then return cell, math.min(current + previous, math.max(limit.quota, current)), 0 end
if at == cell - limit.window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, current, previous)
local quota, window = limit.quota, limit.window
local cell, inside, before = roll_cells(limit, now, at, current, previous)
local overlap = cell - now + window
local room = quota - cost - inside
local retry = 0
if cost > quota then
retry = -1
elseif cost > 0 and room < 0 then
retry = overlap + window - floor_div((quota - cost) * window, inside)
elseif cost > 0 and before * overlap > room * window then
retry = overlap - floor_div(room * window, before)
elseif cost > 0 then
inside = inside + cost
end
local remaining = math.max(0, quota - inside - ceil_div(before * overlap, window))
local reset = 0
if inside > 0 then reset = overlap + window elseif before > 0 then reset = overlap end
local spent = retry == 0 and cost > 0
if spent or (at and at > cell) then return retry, remaining, reset, 0, cell, inside, before end
return retry, remaining, reset, 0, at, current, previous
end
local row_measures = {
['fixed-window'] = fixed_window,
['sliding-counter'] = sliding_counter,
['token-bucket'] = bucket,
['leaky-bucket'] = bucket,
}
local function charge_row(limit, now, cost, at, x, y)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, at)
return start or now, (start and x or 0) + cost, 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit, now, at, x, y)
return cell, current + cost, previous
end
return now, math.min(bucket_level(limit, now, at, x) + cost * limit.window, 9007199254740991), 0
end
local function refund_row(limit, now, cost, at, x, y)
if not at then return end
if limit.algorithm == 'fixed-window' then
return window_start(limit.window, now, at), math.max(0, x - cost), 0
end
if limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit, now, at, x, y)
local from_current = math.min(cost, current)
return cell, current - from_current, math.max(0, previous - (cost - from_current))
end
return now, math.max(0, bucket_level(limit, now, at, x) - cost * limit.window), 0
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
local _, found = log_search(key, log.first + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
if at > log.booked then at = math.min(at, now) end
return at - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function standing(limit, key, now, clock)
local expires_at = expiry(clock, now)
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
local function replan(state, list, waiting, first, extra, now, channel, expires_at)
local units = extra
for i = first, #waiting do units = units + waiting[i].cost end
state.refund(units)
local moved, processes = {}, {}
redis.call('LTRIM', list, '0', first - 2)
if first == 1 then redis.call('DEL', list) end
for i = first, #waiting do
local waiter = waiting[i]
local wait = state.measure(waiter.cost)
if wait < 0 then wait = waiter.turn - now end
state.book(waiter.cost, wait)
waiter.turn = now + wait
redis.call('RPUSH', list, waiter_pack(waiter.turn, waiter.cost, waiter.id))
local process, number = string.match(waiter.id, '^(.*)/(.*)$')
if not moved[process] then
moved[process] = {}
processes[#processes + 1] = process
end
table.insert(moved[process], number .. ':' .. string.format('%.0f', wait))
end
state.save()
if #waiting > 0 then redis.call('PEXPIREAT', list, expires_at(waiting[#waiting].turn - now)) end
for _, process in ipairs(processes) do
local ear = channel .. process
redis.call('PUBLISH', ear, table.concat(moved[process], ' '))
end
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
