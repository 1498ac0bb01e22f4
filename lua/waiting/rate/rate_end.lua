--[[
  Ends a shared rate with all its state, now or later. Notifies the waiters.

  KEYS[1..10]  see rates.open
  KEYS[11]     record of the caller's own member of the line
  KEYS[12], ARGV[1..2]  see timely.run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      in how many ms it ends; 0 now
  ARGV[5]      client
  ARGV[6]      what the channel of every process begins with

  Returns 1, or 0 where no rate was set; then the first clients that rate_sweep has to visit.
]]
local timely = require 'redis.timely'
local rates = require 'waiting.rate.rates'

local clock = ARGV[3]
local left = tonumber(ARGV[4])
local client = ARGV[5]
local channel = ARGV[6]
local now = timely.now_ms(clock)

return timely.run_once(function()
  local before = rates.open(clock, now)
  if not before then return { 0 } end
  if left == 0 then
    for _, group in ipairs({ rates.group(3), rates.group(7) }) do rates.delete(group, channel) end
    redis.call('ZREM', KEYS[2], client)
    redis.call('DEL', KEYS[1], KEYS[11], KEYS[12])
    -- Nothing is left behind: a repeated request would be answered 0.
    return { 1, unpack(rates.outdated(nil)) }, false
  end
  redis.call('HSET', KEYS[1], 'endsAt', string.format('%.0f', now + left), 'setAt', rates.stamp(now, before))
  local rate = rates.open(clock, now)
  redis.call('PEXPIREAT', KEYS[1], rate.expires_at(left))
  local reset = rates.apply(rate, rates.group(3), channel, now, false, false)
  local own = rates.apply(rate, rates.group(7), channel, now, false, false)
  if rate.per_client and own > 0 then rate.register(client, own) end
  redis.call('PEXPIREAT', KEYS[11], rate.expires_at(left))
  rate.use(math.max(reset, own))
  return { 1, unpack(rates.outdated(rate)) }, true
end)
