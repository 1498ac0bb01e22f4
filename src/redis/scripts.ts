// Generated from lua/ by `npm run embed`: change the .lua files, not this one.
import type { Script } from './script.js'

export const block: Script = {
  name: 'block',
  sha1: 'aa1e95825ca3e90e3b08d201b7d8af86cae4fbd4',
  source: `local function now_ms(given)
if given ~= '' then return tonumber(given) end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function lifetime_ms(reset, clock)
if clock ~= '' then return reset + 5000 end
return reset + 1000
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
redis.call('PEXPIRE', list, lifetime_ms(last[2] - now, clock))
else
redis.call('ZREM', list, member)
end
end`,
}

export const consume: Script = {
  name: 'consume',
  sha1: 'e3e6a8e60b7ad19f65401fb3b0cc574523fca46d',
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
local function lifetime_ms(reset, clock)
if clock ~= '' then return reset + 5000 end
return reset + 1000
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
if not at or limit.quota == 0 then return 0 end
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
local found = bucket_level(limit, now, at, level)
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
local function roll_cells(window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at >= cell then return cell, current, previous end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, current, previous)
local quota, window = limit.quota, limit.window
local cell, inside, before = roll_cells(window, now, at, current, previous)
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
local function load_rows(keys, rows)
if #keys == 0 then return end
local values = redis.call('MGET', unpack(keys))
local missing = {}
for i, key in ipairs(keys) do
local value = values[i]
if not value then
missing[#missing + 1] = key
rows[key] = { at = nil, x = 0, y = 0 }
elseif #value ~= 24 then
rows[key] = { err = 'WRONGTYPE the key holds a value that is not a limit\\'s' }
else
local at, x, y = struct.unpack('<ddd', value)
rows[key] = { at = at, x = x, y = y }
end
end
if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
for _, key in ipairs(missing) do
if redis.call('EXISTS', key) == 1 then
rows[key] = { err = 'WRONGTYPE the key holds a ' .. redis.call('TYPE', key).ok }
end
end
end
local function save_row(key, row, ttl)
redis.call('SET', key, struct.pack('<ddd', row.at, row.x, row.y), 'PX', ttl)
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
local head = redis.pcall('LRANGE', key, 0, 1)
if head.err then return head end
if not head[1] then return { gone = 0, total = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local _, gone = log_unpack(head[1])
local log = { gone = gone, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
log.newest, log.total = log_unpack(redis.call('LINDEX', key, -1))
if log.newest > now then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, 0, from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, -1)
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
local enough = log.total + cost - limit.quota
local at = log.oldest
if log.oldest_total < enough then
local _, found = log_search(key, log.first + 1, redis.call('LLEN', key), function(_, total) return total >= enough end)
at = found or log.newest
end
return math.min(at, now) - now + limit.window, math.max(0, limit.quota - spent), reset, 0
end
local function log_spend(log, now, cost)
log.total = log.total + cost
log.newest = now
log.dirty = true
if not log.oldest or log.oldest == now then log.oldest, log.oldest_total, log.first = now, log.total, log.first or 1 end
end
local function log_save(key, log, ttl)
if log.rubbish then redis.call('DEL', key) end
local entry = log_pack(log.newest, log.total)
if not log.stored then
redis.call('RPUSH', key, log_pack(log.newest, log.gone), entry)
elseif log.stored == log.newest then
redis.call('LSET', key, -1, entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('PEXPIRE', key, ttl)
end
local function blocked_until(list, member)
return tonumber(redis.call('ZSCORE', list, member) or 0)
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
local states = {}
local row_keys = {}
for i = width + 1, #KEYS do
local key = KEYS[i]
if row_measures[limits[(i - 1) % width + 1].algorithm] and not states[key] then
states[key] = true
row_keys[#row_keys + 1] = key
end
end
load_rows(row_keys, states)
local changed = {}
local function change(key, limit, state, reset)
if not state.limit then
state.limit = limit
changed[#changed + 1] = key
end
state.reset = reset
end
local function measure(limit, key, cost)
local state = states[key]
if not state then
state = log_open(key, limit.window, now, spending)
states[key] = state
end
if state.err then return state.err end
local by_row = row_measures[limit.algorithm]
if by_row then return { by_row(limit, now, cost, state.at, state.x, state.y) } end
return { sliding_window(limit, now, cost, key, state) }
end
local function commit(limit, key, verdict, cost)
local state = states[key]
if row_measures[limit.algorithm] then
if verdict[5] and (verdict[5] ~= state.at or verdict[6] ~= state.x or verdict[7] ~= state.y) then
state.at, state.x, state.y = verdict[5], verdict[6], verdict[7]
change(key, limit, state, verdict[3])
end
elseif cost > 0 then
log_spend(state, now, cost)
change(key, limit, state, verdict[3])
end
end
local out = { now }
local size = 1
local function answer(limit, verdict, until_at)
local retry, remaining = verdict[1], verdict[2]
out[size + 2] = verdict[3]
if retry == 0 and until_at <= now then
out[size + 1] = remaining
size = size + 2
if limit.algorithm == 'leaky-bucket' then
size = size + 1
out[size] = verdict[4]
end
return
end
out[size + 1] = -1 - remaining
if until_at > now and retry >= 0 then retry = -2 - math.max(retry, until_at - now) end
out[size + 3] = retry
size = size + 3
end
for first = width + 1, #KEYS, width do
local cost = one_cost or tonumber(ARGV[costs_at + (first - 1) / width - 1])
local verdicts, blocks = {}, {}
local allowed = true
local failure
for j = 1, width do
local key = KEYS[first + j - 1]
local verdict = measure(limits[j], key, cost)
if type(verdict) == 'string' then
failure = verdict
break
end
verdicts[j] = verdict
blocks[j] = some_blocked and blocked_until(KEYS[j], key) or 0
if verdict[1] ~= 0 or blocks[j] > now then allowed = false end
end
if failure then
size = size + 1
out[size] = failure
else
for j = 1, width do
local limit, key = limits[j], KEYS[first + j - 1]
if not allowed and verdicts[j][1] == 0 and cost > 0 then verdicts[j] = measure(limit, key, 0) end
if spending then commit(limit, key, verdicts[j], allowed and cost or 0) end
answer(limit, verdicts[j], blocks[j])
end
end
end
for _, key in ipairs(changed) do
local state = states[key]
local ttl = lifetime_ms(state.reset, clock)
if row_measures[state.limit.algorithm] then save_row(key, state, ttl) else log_save(key, state, ttl) end
end
return out`,
}

export const reset: Script = {
  name: 'reset',
  sha1: 'ee755c38bd681a277c72a8a2dd4548baa6783666',
  source: `return redis.call('UNLINK', unpack(KEYS))`,
}

export const settle: Script = {
  name: 'settle',
  sha1: '3e750e38e9014df98f3d2ca3492315f9118b9d06',
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
local function lifetime_ms(reset, clock)
if clock ~= '' then return reset + 5000 end
return reset + 1000
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
if not at or limit.quota == 0 then return 0 end
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
local found = bucket_level(limit, now, at, level)
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
local function roll_cells(window, now, at, current, previous)
local cell = now - math.fmod(now, window)
if not at then return cell, 0, 0 end
if at >= cell then return cell, current, previous end
if at == cell - window then return cell, 0, current end
return cell, 0, 0
end
local function sliding_counter(limit, now, cost, at, current, previous)
local quota, window = limit.quota, limit.window
local cell, inside, before = roll_cells(window, now, at, current, previous)
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
local function load_rows(keys, rows)
if #keys == 0 then return end
local values = redis.call('MGET', unpack(keys))
local missing = {}
for i, key in ipairs(keys) do
local value = values[i]
if not value then
missing[#missing + 1] = key
rows[key] = { at = nil, x = 0, y = 0 }
elseif #value ~= 24 then
rows[key] = { err = 'WRONGTYPE the key holds a value that is not a limit\\'s' }
else
local at, x, y = struct.unpack('<ddd', value)
rows[key] = { at = at, x = x, y = y }
end
end
if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
for _, key in ipairs(missing) do
if redis.call('EXISTS', key) == 1 then
rows[key] = { err = 'WRONGTYPE the key holds a ' .. redis.call('TYPE', key).ok }
end
end
end
local function save_row(key, row, ttl)
redis.call('SET', key, struct.pack('<ddd', row.at, row.x, row.y), 'PX', ttl)
end
local function refund_row(limit, now, cost, row)
if not row.at then return false end
if limit.algorithm == 'fixed-window' then
row.at = window_start(limit.window, now, row.at)
row.x = math.max(0, row.x - cost)
return row.at ~= nil
end
if limit.algorithm == 'sliding-counter' then
row.at, row.x, row.y = roll_cells(limit.window, now, row.at, row.x, row.y)
local from_current = math.min(cost, row.x)
row.x = row.x - from_current
row.y = math.max(0, row.y - (cost - from_current))
return true
end
row.x = math.max(0, bucket_level(limit, now, row.at, row.x) - cost * limit.window)
row.at = now
return true
end
local function charge_row(limit, now, cost, row)
if limit.algorithm == 'fixed-window' then
local start = window_start(limit.window, now, row.at)
row.at, row.x = start or now, (start and row.x or 0) + cost
elseif limit.algorithm == 'sliding-counter' then
local cell, current, previous = roll_cells(limit.window, now, row.at, row.x, row.y)
row.at, row.x, row.y = cell, current + cost, previous
else
row.x = math.min(bucket_level(limit, now, row.at, row.x) + cost * limit.window, 9007199254740991)
row.at = now
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
local head = redis.pcall('LRANGE', key, 0, 1)
if head.err then return head end
if not head[1] then return { gone = 0, total = 0 } end
if not head[2] or not log_formats[#head[1]] or not log_formats[#head[2]] then
return { err = 'WRONGTYPE the key holds a list that is not a limit\\'s' }
end
local _, gone = log_unpack(head[1])
local log = { gone = gone, first = 1 }
log.oldest, log.oldest_total = log_unpack(head[2])
log.newest, log.total = log_unpack(redis.call('LINDEX', key, -1))
if log.newest > now then
if writable then
local length = redis.call('LLEN', key)
local from = log_search(key, 1, length, function(at) return at > now end)
redis.call('LTRIM', key, 0, from - 1)
redis.call('RPUSH', key, log_pack(now, log.total))
redis.call('PEXPIRE', key, window + 5000)
if from == 1 then log.oldest, log.oldest_total = now, log.total end
end
log.newest = now
end
log.stored = log.newest
if now - log.newest >= window then return { gone = 0, total = 0, rubbish = true } end
if now - log.oldest >= window then
local length = redis.call('LLEN', key)
local passes = function(at) return now - at < window end
local reach = math.min(4, length)
local first, at, total = log_search(key, 2, reach, passes)
if not at then first, at, total = log_search(key, reach, length, passes) end
local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
log.gone, log.first, log.oldest, log.oldest_total = before, first, at, total
if writable then
redis.call('LTRIM', key, first - 1, -1)
log.first = 1
end
end
return log
end
local function log_refund(key, log, cost)
if not log.newest or cost == 0 then return end
local total = math.max(log.gone, log.total - cost)
if total == log.gone then
redis.call('DEL', key)
return
end
local index, at, reached = log_search(key, 1, redis.call('LLEN', key), function(_, sum) return sum >= total end)
redis.call('LTRIM', key, 0, index)
if reached > total then redis.call('LSET', key, -1, log_pack(at, total)) end
end
local function log_spend(log, now, cost)
log.total = log.total + cost
log.newest = now
log.dirty = true
if not log.oldest or log.oldest == now then log.oldest, log.oldest_total, log.first = now, log.total, log.first or 1 end
end
local function log_save(key, log, ttl)
if log.rubbish then redis.call('DEL', key) end
local entry = log_pack(log.newest, log.total)
if not log.stored then
redis.call('RPUSH', key, log_pack(log.newest, log.gone), entry)
elseif log.stored == log.newest then
redis.call('LSET', key, -1, entry)
else
redis.call('RPUSH', key, entry)
end
redis.call('PEXPIRE', key, ttl)
end
local clock = ARGV[1]
local now = now_ms(clock)
local units = tonumber(ARGV[2])
local limits = read_limits(4, tonumber(ARGV[3]))
local row_keys, states = {}, {}
for i, key in ipairs(KEYS) do
if row_measures[limits[i].algorithm] then row_keys[#row_keys + 1] = key end
end
load_rows(row_keys, states)
for i, key in ipairs(KEYS) do
states[key] = states[key] or log_open(key, limits[i].window, now, true)
if states[key].err then return redis.error_reply(states[key].err) end
end
local function settle_row(key, limit, row)
if units > 0 then
charge_row(limit, now, units, row)
elseif not refund_row(limit, now, -units, row) then
return
end
local _, _, reset = row_measures[limit.algorithm](limit, now, 0, row.at, row.x, row.y)
save_row(key, row, lifetime_ms(reset, clock))
end
local function settle_log(key, limit, log)
if units > 0 then
log_spend(log, now, units)
log_save(key, log, lifetime_ms(limit.window, clock))
else
log_refund(key, log, -units)
end
end
for i, key in ipairs(KEYS) do
local settle = row_measures[limits[i].algorithm] and settle_row or settle_log
settle(key, limits[i], states[key])
end`,
}
