--[[
  Gives permits back, the oldest grants that still count first. Notifies the waiters that fit now.

  KEYS[1..10]  see rate_open
  KEYS[11]     what the sender has sent: see run_once
  ARGV[1]      number of the request; ARGV[2] the lowest that is not answered
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      client
  ARGV[5]      permits given back
  ARGV[6]      what the channel of every process begins with

  Returns 1, or -2 where no rate is set.
]]
-- @include now_ms
-- @include run_once
-- @include rate_open
-- @include rate_capacity
-- @include log_refund_oldest
-- @include line_open
-- @include line_walk
-- @include line_save
local number, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = ARGV[3]
local client = ARGV[4]
local permits = tonumber(ARGV[5])
local channel = ARGV[6]
local now = now_ms(clock)

return run_once(KEYS[11], number, floor, function()
  local rate = rate_open(clock, now)
  if not rate then return { -2 } end
  local group, window = rate.group, rate.limit.window
  local line = line_open(group.line, group.asks, group.meta, channel)
  local log = log_open(rate.log, window, now, true)
  local err = line.err or log.err
  if err then return redis.error_reply(err) end
  log_refund_oldest(rate.log, log, permits, rate.expires_at(window))
  local capacity = rate_capacity(rate, now)
  if line.units > 0 then
    line_walk(line, nil, capacity, { next = 0 })
    line_save(line)
  end
  local reset = capacity.reset()
  if rate.fleeting and reset > 0 then rate.register(client, reset) end
  rate.use(math.max(reset, line.units > 0 and 60000 or 0))
  return { 1 }, true, rate.life
end)
