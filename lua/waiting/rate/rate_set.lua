--[[
  Sets a rate. Notifies the waiters, to whom it applies from now on.

  KEYS[1..10]  see rates.open
  KEYS[11], ARGV[1..2]  see timely.run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      when: 'absent', 'present' or 'always'
  ARGV[5]      1 to keep what was granted, 0 to forget it
  ARGV[6]      rate
  ARGV[7]      interval, ms
  ARGV[8]      mode: 'overall' or 'per-client'
  ARGV[9]      how long the limiter lives unused, ms; -1 for ever
  ARGV[10]     client
  ARGV[11]     what the channel of every process begins with

  Returns 1, or 0 if it was not set because of `when`; then the first clients that rate_sweep has to visit.
]]
local timely = require 'redis.timely'
local rates = require 'waiting.rate.rates'

local clock = ARGV[3]
local when = ARGV[4]
local keep = ARGV[5] == '1'
local rate_given, interval_given, mode_given, keep_alive_given = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local client = ARGV[10]
local channel = ARGV[11]
local now = timely.now_ms(clock)

return timely.run_once(function()
  local before = rates.open(clock, now)
  if (when == 'absent' and before) or (when == 'present' and not before) then return { 0 } end
  local is_moved = not before or before.per_client ~= (mode_given == 'per-client')
  local forgets = not (keep and before)
  local stamp = rates.stamp(now, before)
  local forgot_at = forgets and stamp or string.format('%.0f', before.forgot_at)
  local moved_at = is_moved and stamp or string.format('%.0f', before.moved_at)
  redis.call('DEL', KEYS[1])
  redis.call(
    'HSET', KEYS[1], 'rate', rate_given, 'interval', interval_given, 'mode', mode_given, 'setAt', stamp,
    'forgotAt', forgot_at, 'movedAt', moved_at
  )
  if keep_alive_given ~= '-1' then redis.call('HSET', KEYS[1], 'keepAlive', keep_alive_given) end
  if before and before.ends_at then
    redis.call('HSET', KEYS[1], 'endsAt', string.format('%.0f', before.ends_at))
    redis.call('PEXPIREAT', KEYS[1], before.expires_at(before.ends_at - now))
  end
  local rate = rates.open(clock, now)
  local reset = rates.apply(rate, rates.group(3), channel, now, forgets, is_moved)
  local own = rates.apply(rate, rates.group(7), channel, now, forgets, is_moved)
  if rate.per_client and own > 0 then rate.register(client, own) else redis.call('ZREM', KEYS[2], client) end
  rate.keep_clients(rate.limit.window)
  rate.use(math.max(reset, own))
  return { 1, unpack(rates.outdated(rate)) }, true
end)
