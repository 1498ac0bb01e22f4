--[[ Sets `now` from the server's clock, if no clock was given. If the script would spend after valid_until, ends it: it then returns only `now`. Reads
  valid_until and spending; uses call. ]]
if not now then
  local time = call('TIME')
  local ms = time[2] / 1000
  now = time[1] * 1000 + ms - ms % 1
end
if spending and now > valid_until then return { now } end
