--[[
  What every script that decides reads first. It ends the script, which answers now alone, if it came too late.

  ARGV[1]  until when this may be carried out, ms; '' only to look, whenever it comes
  ARGV[2]  now, ms; '' for the server's clock

  Gives call, clock, now and spending.
]]
local call, clock = redis.call, ARGV[2]
local now = tonumber(clock)
if not now then
  local time = call('TIME')
  local ms = time[2] / 1000
  now = time[1] * 1000 + ms - ms % 1
end
local spending = ARGV[1] ~= ''
if spending and now > tonumber(ARGV[1]) then return { now } end
