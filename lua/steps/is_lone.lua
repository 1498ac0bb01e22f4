--[[
  Gives `lone`: whether this is one request that spends 1 by the server's clock, of a key that nobody can have blocked or wait for. Reads
  what steps/open_one gives.
]]
local lone = not KEYS[4] and not ARGV[costs_at] and spending and clock == '' and not some_kept
