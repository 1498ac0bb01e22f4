--[[
  Ends the script if now is later than its last argument, the last moment at which it may act, ms. The script then returns only now. Reads now.
]]
if now > tonumber(ARGV[#ARGV]) then return { now } end
