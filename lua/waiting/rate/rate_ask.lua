--[[
  An ask of the waiting line of a shared rate: takes permits at once where they are free, joins and leaves the line,
  collects grants.

  KEYS[1..10]  see rates.open
  KEYS[11]     record of the member; KEYS[12] of the member that it replaces, or the same
  ARGV[1]      now, ms; '' for the server's clock
  ARGV[2]      client
  ARGV[3]      what the channel of every process begins with
  ARGV[4..]    the ask: see asks.handle

  Returns what asks.handle returns, or '-2' where no rate is set; a list of now alone if it came too late. Refused with
  -1: more than the rate; with -2: the rate ends before.
]]
local timely = require 'redis.timely'
local rates = require 'waiting.rate.rates'
local lines = require 'waiting.line.lines'
local asks = require 'waiting.line.asks'

local clock = ARGV[1]
local client = ARGV[2]
local channel = ARGV[3]
local now = timely.now_ms(clock)

local rate = rates.open(clock, now)
if not rate then return '-2' end
if rate.per_client then rates.update(rate, client, rate.group, channel, now) end
local group = rate.group
local line = lines.open(group.line, group.asks, group.meta, channel)
if line.err then return redis.error_reply(line.err) end
local capacity = rates.capacity(rate, now)
local reply = asks.handle(line, KEYS[11], KEYS[12], 4, capacity)
if not reply then return { now } end
capacity.save()
-- A waiter uses the limiter, and asks again within seconds.
local reset = math.max(capacity.reset(), line.units > 0 and 60000 or 0)
if rate.per_client and (capacity.granted or line.units > 0) then rate.register(client, reset) end
rate.use(reset)
return reply
