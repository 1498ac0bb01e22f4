--[[
  What every script that decides reads first. It ends the script, which answers now alone, if it came too late.

  ARGV[1]  until when this may be carried out, ms; '' only to look, whenever it comes. A clock that is given follows behind it: `until@now`, ms

  Gives call, clock ('' for the server's), now and spending.
]]
local call, clock, now = redis.call, '', nil
local valid_until = tonumber(ARGV[1])
local spending = valid_until ~= nil
if not spending and ARGV[1] ~= '' then
  local ends, given = string.match(ARGV[1], '^(%d*)@(.*)$')
  valid_until, clock, now = tonumber(ends), given, tonumber(given)
  spending = valid_until ~= nil
end
if not now then
  local time = call('TIME')
  local ms = time[2] / 1000
  now = time[1] * 1000 + ms - ms % 1
end
if spending and now > valid_until then return { now } end
