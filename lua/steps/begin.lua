--[[ Sets now, if no clock was given, and ends the script, which answers now alone, if it came too late. Reads valid_until and spending; uses call. ]]
if not now then
  local time = call('TIME')
  local ms = time[2] / 1000
  now = time[1] * 1000 + ms - ms % 1
end
if spending and now > valid_until then return { now } end
