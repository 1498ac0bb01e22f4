--[[
  What a script for one limit reads before it decides.

  KEYS        the block list of the limit (ZSET member → blocked until, ms), the marks of its waiting lines (see line_mark); then the key
              of each request
  ARGV[1]     as of steps/read_until
  ARGV[2…]    the limit: quota, window in ms, and for a bucket its burst; then the cost of each request, one for all, or none where all
              cost 1

  A request that comes alone, costs 1 and goes by the server's clock has one argument, which holds until, quota, window and burst as numbers of seven
  digits to the base 64, "0" to "o": several arguments, and numbers in decimal digits, take longer to read than a short script runs.

  Reads costs_at, the place of the first cost. Gives call, `lone` (whether it is such a request), valid_until, quota, window, burst, clock, now and spending;
  steps/find_blocks_and_waiters gives the rest.
]]
local call, lone = redis.call, not ARGV[2]
local clock, now, spending = '', nil, true
local valid_until, quota, window, burst
if lone then
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, ab = string.byte(ARGV[1], 1, 28)
  -- What seven times "0" amounts to.
  valid_until = (((((a * 64 + b) * 64 + c) * 64 + d) * 64 + e) * 64 + f) * 64 + g - 3350892579888
  quota = (((((h * 64 + i) * 64 + j) * 64 + k) * 64 + l) * 64 + m) * 64 + n - 3350892579888
  window = (((((o * 64 + p) * 64 + q) * 64 + r) * 64 + s) * 64 + t) * 64 + u - 3350892579888
  burst = costs_at > 4 and (((((v * 64 + w) * 64 + x) * 64 + y) * 64 + z) * 64 + aa) * 64 + ab - 3350892579888 or quota
else
  -- @include steps/read_until
  quota, window = tonumber(ARGV[2]), tonumber(ARGV[3])
  burst = costs_at > 4 and tonumber(ARGV[4]) or quota
end
