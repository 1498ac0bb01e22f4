--[[
  What a script that decides under several limits reads first. It ends the script, which answers now alone, if it came too late.

  ARGV[1]  as of steps/read_until

  Gives call, clock ('' for the server's), now and spending.
]]
local call, clock, now = redis.call, '', nil
local valid_until, spending
-- @include steps/read_until
-- @include steps/read_clock_or_stop
