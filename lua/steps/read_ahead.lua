--[[
  Sets `ahead` to the units of the waiters in the line of `line_name`, a member of the ZSET `waiting` (see line_mark), or to 0. A mark lasts
  for 6 s at most, so a later one is from before the server's clock was set back. Reads some_kept and server_now; uses call.
]]
local ahead = 0
if some_kept then
  local mark = call('ZMSCORE', waiting, line_name, line_name .. ' units')
  local lives_ms = mark[1] and mark[1] - server_now or 0
  if lives_ms > 0 and lives_ms < 6001 then ahead = -mark[2] end
end
