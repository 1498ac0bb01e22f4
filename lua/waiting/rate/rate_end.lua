--[[
  Ends a shared rate with all its state, now or later. Notifies the waiters.

  KEYS[1..10]  see rates.open
  KEYS[11..]   log and line of each further client that is known to have state, four keys each
  KEYS[last-1] record of the caller's own member of the line
  KEYS[last], ARGV[1..2]  see timely.run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      in how many ms it ends; 0 now
  ARGV[5]      what the channel of every process begins with
  ARGV[6..]    the clients whose keys are given: this one, then the further ones in their order

  Returns 1, or 0 where no rate was set. Or the clients whose keys were not given, and nothing was done.
]]
local timely = require 'redis.timely'
local logs = require 'limiter.logs'
local rates = require 'waiting.rate.rates'
local lines = require 'waiting.line.lines'

local clock = ARGV[3]
local left = tonumber(ARGV[4])
local channel = ARGV[5]
local now = timely.now_ms(clock)

return timely.run_once(function()
  local rate = rates.open(clock, now)
  if not rate then return { 0 } end
  local groups, missing = rates.groups(6)
  if not groups then return missing end
  for _, group in ipairs(groups) do
    local line = rates.line(group, channel)
    if line then lines.notify_all(line) end
    if left == 0 then redis.call('DEL', group.log, group.line, group.asks, group.meta) end
  end
  if left == 0 then
    redis.call('DEL', KEYS[1], KEYS[2], KEYS[#KEYS - 1], KEYS[#KEYS])
    -- Nothing is left behind: a repeated request would be answered 0.
    return { 1 }, false
  end
  redis.call('HSET', KEYS[1], 'endsAt', string.format('%.0f', now + left))
  local ending = rates.open(clock, now)
  redis.call('PEXPIREAT', KEYS[1], ending.expires_at(left))
  local latest = 0
  for _, group in ipairs(groups) do
    local log = logs.open(group.log, rate.limit.window, now, false)
    local reset = log.newest and log.newest - now + rate.limit.window or 0
    if reset > 0 then redis.call('PEXPIREAT', group.log, ending.expires_at(reset)) end
    for _, key in ipairs({ group.line, group.asks, group.meta }) do
      redis.call('PEXPIREAT', key, ending.expires_at(60000))
    end
    latest = math.max(latest, reset)
  end
  for _, key in ipairs({ KEYS[2], KEYS[#KEYS - 1] }) do redis.call('PEXPIREAT', key, ending.expires_at(left)) end
  ending.use(latest)
  return { 1 }, true
end)
