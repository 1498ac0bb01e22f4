--[[
  Brings clients up to the last change of a shared rate, a page at a time; the state of those of a rate that has ended
  is deleted. Those that nobody visits do it themselves when they come.

  KEYS[1..10]  see rates.open
  KEYS[11..]   log and line of each client, four keys each
  ARGV[1]      now, ms; '' for the server's clock
  ARGV[2]      what the channel of every process begins with
  ARGV[3..]    the clients whose keys are given, in their order

  Returns the next clients to visit; none at the end.
]]
local timely = require 'redis.timely'
local rates = require 'waiting.rate.rates'

local clock = ARGV[1]
local channel = ARGV[2]
local now = timely.now_ms(clock)

local rate = rates.open(clock, now)
for i = 3, #ARGV do
  local client, group = ARGV[i], rates.group(11 + (i - 3) * 4)
  if rate then
    rates.update(rate, client, group, channel, now)
  elseif redis.call('ZREM', KEYS[2], client) == 1 then
    rates.delete(group, channel)
  end
end
return rates.outdated(rate)
