--[[
  Notifies the waiters of a line that fit now: after units were given back, or a block ended.

  KEYS[1..3]  the line: see line_open
  KEYS[4]     the marks of all lines of the policy: see line_mark
  KEYS[5..]   the state of each limit, then the block list of each
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2]     what the channel of every process begins with
  ARGV[3]     number of limits, then for each: algorithm, quota, window in ms, burst

  Returns nothing.
]]
local line_key = KEYS[1]
if redis.call('EXISTS', line_key) == 0 then return end
-- @include now_ms
-- @include read_limits
-- @include limit_capacity
-- @include line_open
-- @include line_walk
-- @include line_save
-- @include line_mark
local clock = ARGV[1]
local channel = ARGV[2]
local count = tonumber(ARGV[3])
local now = now_ms(clock)
local limits = read_limits(4, count, now)
local states = { unpack(KEYS, 5, 4 + count) }
local line = line_open(line_key, KEYS[2], KEYS[3], channel)
if line.err then return redis.error_reply(line.err) end
local capacity = limit_capacity(limits, states, { unpack(KEYS, 5 + count) }, {}, now, clock)
if capacity.err then return redis.error_reply(capacity.err) end
line_walk(line, nil, capacity, { next = 0 })
line_save(line)
line_mark(line, KEYS[4], states)
