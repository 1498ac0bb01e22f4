--[[
  Gives permits back, the oldest grants that still count first. Notifies the waiters that fit now.

  KEYS[1..10]  see rates.open
  KEYS[11], ARGV[1..2]  see timely.run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      client
  ARGV[5]      permits given back
  ARGV[6]      what the channel of every process begins with

  Returns 1, or -2 where no rate is set.
]]
local timely = require 'redis.timely'
local logs = require 'limiter.logs'
local log_states = require 'limiter.log_states'
local rates = require 'waiting.rate.rates'
local lines = require 'waiting.line.lines'

local clock = ARGV[3]
local client = ARGV[4]
local permits = tonumber(ARGV[5])
local channel = ARGV[6]
local now = timely.now_ms(clock)

return timely.run_once(function()
  local rate = rates.open(clock, now)
  if not rate then return { -2 } end
  if rate.per_client then rates.update(rate, client, rate.group, channel, now) end
  local group, window = rate.group, rate.limit.window
  local line = lines.open(group.line, group.asks, group.meta, channel)
  if line.err then return redis.error_reply(line.err) end
  local log = logs.open(rate.log, window, now, true)
  log_states.refund_oldest(rate.log, log, permits, window)
  redis.call('PEXPIREAT', rate.log, rate.expires_at(window))
  local capacity = rates.capacity(rate, now)
  if line.units > 0 then
    lines.walk(line, nil, capacity, { next = 0 })
    lines.save(line)
  end
  local reset = capacity.reset()
  if rate.per_client and reset > 0 then rate.register(client, reset) end
  rate.use(math.max(reset, line.units > 0 and 60000 or 0))
  return { 1 }, true
end)
