--[[
  Ends the script with an error that tells the time, before anything is written, if now is not in the window of the calendar that the
  asker has computed: it asks again. Reads now, burst (when the window began) and window (its length).
]]
if now < burst or now >= burst + window then error('CALENDAR ' .. string.format('%.0f', now)) end
