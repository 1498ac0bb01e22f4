--[[
  As steps/stop_if_late, but exact only to the second: it compares texts of digits, which is faster, so the script may act until the end of the
  second of that last moment. Gives time, the answer of TIME.
]]
local time = redis.call('TIME')
if time[1] > ARGV[#ARGV] then return { time[1] * 1000 + math.floor(time[2] / 1000) } end
