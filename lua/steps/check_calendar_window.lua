--[[
  Ends the script with an error that contains the time, before anything is written, if now is outside the calendar window that the
  process has computed. The process then asks again. Reads now, burst (the start of the window) and window (its length).
]]
if now < burst or now >= burst + window then error('CALENDAR ' .. string.format('%.0f', now)) end
