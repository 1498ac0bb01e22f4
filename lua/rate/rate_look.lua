--[[
  How a shared rate stands. Changes nothing.

  KEYS[1..6]  see rate_open
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2..]   ids of waiters

  Returns nothing where no rate is set, else a list: rate, interval in ms, mode, keepAlive in ms or -1, permits available, epoch;
  then for each id the ms until its turn: -4 if it is not in the line, which means that its turn has come or that it was sent away;
  -5 if nobody can know, because some of the line was lost.
]]
-- @include now_ms
-- @include rate_open
-- @include log_open
-- @include log_search
-- @include log_unpack
-- @include sliding_window
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
  -- Whoever waits stands in both. If not, some of the line was lost, and who is missing may be one of those.
  local missing = booked > waiting and -5 or -4
  for i = 2, #ARGV do
    local turn = turns[ARGV[i]]
    reply[#reply + 1] = turn and math.max(0, turn - now) or missing
  end
end
return reply
