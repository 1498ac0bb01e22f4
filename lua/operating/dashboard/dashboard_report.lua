--[[
  Adds what one process has decided to the sums of a step of ten seconds, and keeps the process's own record. About once
  a minute the same call adds what the process had decided in a minute to the sums of that minute and of its ten
  minutes, for charts of hours.

  KEYS[1]  processes: ZSET process → its last report, ms
  KEYS[2]  records: HASH process → number and time of its last report, its record as JSON, with spaces between
  KEYS[3]  details: HASH process → its top keys, queues and levels as JSON
  KEYS[4…6]  sums of the step, of the minute, of the ten minutes: see outcome_sums.add
  KEYS[7…9]  the index: see index_note
  KEYS[10…12]  events, their facts, chains: see events.add
  ARGV[1]  number of this report: one that comes twice counts once
  ARGV[2]  number of the step: ms since the epoch / 10 000
  ARGV[3]  process
  ARGV[4]  its record
  ARGV[5]  its details; '' if they have not changed
  ARGV[6]  number of rows; then for each the id of a limit and its eight counts
  ARGV[…]  number of the minute; number of its rows, most often 0; then these rows
  ARGV[…]  number of events, then each: see events.add
  ARGV[…]  for how long notes of the index hold, ms; most notes; id and facts of each object

  Returns the server's time in ms; 1 if it was carried out, 0 if the step is not one of the last fifteen minutes, or in
  the future; the version of the index, 0 where there is none.
]]
local timely = require 'redis.timely'
local outcome_sums = require 'operating.dashboard.outcome_sums'
local events = require 'operating.dashboard.events'
local object_index = require 'operating.dashboard.object_index'

local number = tonumber(ARGV[1])
local step = tonumber(ARGV[2])
local process = ARGV[3]
local record = ARGV[4]
local details = ARGV[5]
local count = tonumber(ARGV[6])
local minute = tonumber(ARGV[7 + 2 * count])
local minute_count = tonumber(ARGV[8 + 2 * count])
local first_of_minute = 9 + 2 * count
local event_count = tonumber(ARGV[first_of_minute + 2 * minute_count])
local first_of_events = first_of_minute + 2 * minute_count + 1
local first_of_index = first_of_events + 8 * event_count
local life = tonumber(ARGV[first_of_index])
local most = tonumber(ARGV[first_of_index + 1])
local STEP, KEPT, FORGOTTEN = 10000, 960000, 3600000
local MINUTE, TEN_MINUTES, MINUTE_KEPT, TEN_MINUTES_KEPT = 60000, 600000, 3900000, 87600000

local now = timely.now_ms('')
local starts = step * STEP
local version = tonumber(redis.call('HGET', KEYS[9], 'version') or 0)
if starts > now + STEP or starts < now - KEPT then return { now, 0, version } end

local last = redis.call('HGET', KEYS[2], process)
if last and tonumber(string.match(last, '^%d+')) >= number then return { now, 1, version } end
redis.call('HSET', KEYS[2], process, string.format('%.0f %.0f %s', number, now, record))
redis.call('ZADD', KEYS[1], now, process)
if details ~= '' then redis.call('HSET', KEYS[3], process, details) end

if count > 0 then
  outcome_sums.add(KEYS[4], 7, count)
  redis.call('PEXPIREAT', KEYS[4], string.format('%.0f', starts + KEPT + STEP))
end
local minute_starts = minute * MINUTE
if minute_count > 0 and minute_starts <= now + STEP then
  outcome_sums.add(KEYS[5], first_of_minute, minute_count)
  redis.call('PEXPIREAT', KEYS[5], string.format('%.0f', minute_starts + MINUTE_KEPT))
  outcome_sums.add(KEYS[6], first_of_minute, minute_count)
  local ten_minutes_start = minute_starts - minute_starts % TEN_MINUTES
  redis.call('PEXPIREAT', KEYS[6], string.format('%.0f', ten_minutes_start + TEN_MINUTES_KEPT))
end

if event_count > 0 then events.add({ KEYS[10], KEYS[11], KEYS[12] }, first_of_events, event_count, now) end

local silent = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - FORGOTTEN, 'LIMIT', 0, 32)
if #silent > 0 then
  redis.call('ZREM', KEYS[1], unpack(silent))
  redis.call('HDEL', KEYS[2], unpack(silent))
  redis.call('HDEL', KEYS[3], unpack(silent))
end
for i = 1, 3 do
  redis.call('PEXPIRE', KEYS[i], FORGOTTEN)
end
if #ARGV > first_of_index + 1 then
  object_index.put({ KEYS[7], KEYS[8], KEYS[9] }, first_of_index + 2, now, life, most, true)
  version = tonumber(redis.call('HGET', KEYS[9], 'version') or 0)
end
return { now, 1, version }
