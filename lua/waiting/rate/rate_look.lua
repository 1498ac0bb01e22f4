--[[
  Reads the state of a shared rate. Changes nothing.

  KEYS[1..10]  see rates.open
  ARGV[1]      now, ms; '' for the server's clock
  ARGV[2]      client

  Returns nothing where no rate is set, else a list: rate, interval in ms, mode, keepAlive in ms or -1, permits
  available, requests that wait, for how long the first of them has waited in ms.
]]
local timely = require 'redis.timely'
local sliding_window = require 'limiter.algorithms.sliding_window'
local logs = require 'limiter.logs'
local rates = require 'waiting.rate.rates'
local lines = require 'waiting.line.lines'

local clock = ARGV[1]
local client = ARGV[2]
local now = timely.now_ms(clock)

local rate = rates.open(clock, now)
if not rate then return {} end
local limit, group = rate.limit, rate.group
local log = logs.open(rate.log, limit.window, now, false)
local used_at = rate.per_client and tonumber(redis.call('ZSCORE', KEYS[2], client) or 0) or math.huge
if used_at <= rate.forgot_at then log = { expired_total = 0, total = 0 } end
local _, available = sliding_window.measure(limit.quota, limit.window, now, 0, rate.log, log)
local line = lines.open(group.line, group.asks, group.meta, '')
if line.err then return redis.error_reply(line.err) end
local waiting, longest = 0, 0
if used_at > rate.moved_at then waiting, longest = lines.waiting(line) end
if waiting > 0 then available = 0 end
local mode = rate.per_client and 'per-client' or 'overall'
return { limit.quota, limit.window, mode, rate.keep_alive, available, waiting, longest }
