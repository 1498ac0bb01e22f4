--[[
  What a script for one limit reads before it decides.

  KEYS        the block list of the limit (ZSET member → blocked until, ms), the marks of its waiting lines (see line_mark); then the key
              of each request
  ARGV[1…3]   as of steps/open_batch
  ARGV[4…6]   the limit: quota, window in ms, burst
  ARGV[7…]    the cost of each request, one for all, or none where all cost 1

  Gives quota, window, burst, one_cost, waiting and some_kept, and what open_batch gives. Uses now_ms.
]]
-- @include steps/open_batch
local quota, window, burst = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local one_cost = #ARGV < 8 and tonumber(ARGV[7] or 1)
local waiting = KEYS[2]
local some_kept = call('EXISTS', KEYS[1], waiting) > 0
