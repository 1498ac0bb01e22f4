--[[
  How a shared rate stands. Changes nothing.

  KEYS[1..6]  see rate_open
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2..]   ids of waiters

  Returns nothing where no rate is set, else a list: rate, interval in ms, mode, keepAlive in ms or -1, permits available,
  epoch; then for each id the ms until its turn, or -4 if it does not wait (any more).
]]
-- @include now_ms
-- @include rate_open
-- @include log_open
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
  local turns = {}
  for _, packed in ipairs(redis.call('LRANGE', rate.line, '0', '-1')) do
    turns[string.sub(packed, 14)] = struct.unpack('>I6', packed)
  end
  for i = 2, #ARGV do
    local turn = turns[ARGV[i]]
    reply[#reply + 1] = turn and math.max(0, turn - now) or -4
  end
end
return reply
