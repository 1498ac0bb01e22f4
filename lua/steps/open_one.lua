--[[
  What a script for one limit reads before it decides. It ends the script, which answers now alone, if it came too late.

  KEYS        the block list of the limit (ZSET member → blocked until, ms), the marks of its waiting lines (see line_mark); then the key
              of each request
  ARGV[1]     as of steps/read_until
  ARGV[2…]    the limit: quota, window in ms, and for a bucket its burst; then the cost of each request, one for all, or none where all
              cost 1

  Reads costs_at, the place of the first cost. Gives call, clock ('' for the server's), now, valid_until, spending, quota, window, burst, some_kept (whether
  a key is blocked or a request waits), and `lone` (whether the fast path may be taken: one request that costs 1, by the server's clock, and neither).
]]
local call, clock, now = redis.call, '', nil
local valid_until, spending
-- @include steps/read_until
-- @include steps/read_clock_or_stop
local quota, window = tonumber(ARGV[2]), tonumber(ARGV[3])
local burst = costs_at > 4 and tonumber(ARGV[4]) or quota
local some_kept = call('EXISTS', KEYS[1], KEYS[2]) > 0
local lone = spending and clock == '' and not some_kept and not KEYS[4] and not ARGV[costs_at]
