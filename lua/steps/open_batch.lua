--[[
  What every script that decides reads first.

  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  until when this may be carried out, ms; '' for whenever it comes
  ARGV[3]  1 to spend, 0 only to look

  Gives call, pack and read, now and spending; what open_lifetimes gives; out and its size for steps/tell. Uses now_ms.
]]
local call, pack, read = redis.call, struct.pack, struct.unpack
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
if valid_until and now > valid_until then return { now } end
local spending = ARGV[3] == '1'

-- @include steps/open_lifetimes
local out, size = { now }, 1
