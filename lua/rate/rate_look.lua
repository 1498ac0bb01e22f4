--[[
  Reads the state of a shared rate. Changes nothing.

  KEYS[1..10]  see rate_open
  ARGV[1]      now, ms; '' for the server's clock

  Returns nothing where no rate is set, else a list: rate, interval in ms, mode, keepAlive in ms or -1, permits available.
]]
-- @include now_ms
-- @include rate_open
-- @include log_open
-- @include sliding_window
-- @include line_open
-- @include line_alive
local clock = ARGV[1]
local now = now_ms(clock)

local rate = rate_open(clock, now)
if not rate then return {} end
local limit, group = rate.limit, rate.group
local log = log_open(rate.log, limit.window, now, false)
if log.err then return redis.error_reply(log.err) end
local _, available = sliding_window(limit, now, 0, rate.log, log)
local line = line_open(group.line, group.asks, group.meta, '')
if line.err then return redis.error_reply(line.err) end
if line_alive(line) then available = 0 end
local mode = rate.fleeting and 'per-client' or 'overall'
return { limit.quota, limit.window, mode, rate.keep_alive, available }
