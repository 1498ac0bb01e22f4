--[[
  What a script for one limit reads before it decides.

  KEYS        the block list of the limit (ZSET member → blocked until, ms), the marks of its waiting lines (see line_mark); then the key
              of each request
  ARGV[1]     as of steps/open_batch
  ARGV[2…]    the limit: quota, window in ms, and for a bucket its burst; then the cost of each request, one for all, or none where all
              cost 1

  Reads costs_at, the place of the first cost. Gives quota, window, burst and some_kept, and what steps/open_batch gives.
]]
-- @include steps/open_batch
local quota, window = tonumber(ARGV[2]), tonumber(ARGV[3])
local burst = costs_at > 4 and tonumber(ARGV[4]) or quota
local some_kept = call('EXISTS', KEYS[1], KEYS[2]) > 0
