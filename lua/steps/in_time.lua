--[[
  Ends the script, which then returns only now, if it is too late: its last argument is the last moment at which it may act, ms. Reads now.
]]
if now > tonumber(ARGV[#ARGV]) then return { now } end
