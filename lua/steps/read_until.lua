--[[
  Reads until when this may be carried out, ms; '' only to look, whenever it comes. A clock that is given follows behind it: `until@now`, ms.
  Sets valid_until, clock ('' for the server's), now (nil by the server's clock) and spending. Reads ARGV[1].
]]
valid_until = tonumber(ARGV[1])
spending = valid_until ~= nil
if not spending and ARGV[1] ~= '' then
  local ends, given = string.match(ARGV[1], '^(%d*)@(.*)$')
  valid_until, clock, now = tonumber(ends), given, tonumber(given)
  spending = valid_until ~= nil
end
