--[[
  Sets `ahead` to the units of the waiters in the line of `line_name`, a member of the ZSET `waiting` (see line_mark), or to 0. A mark lasts
  for 6 s at most, so a later one is from before the server's clock was set back. Reads some_kept and server_now; uses call.
]]
local ahead = 0
if some_kept then
  local ends_at = call('ZSCORE', waiting, line_name)
  local lives_ms = ends_at and ends_at - server_now or 0
  if lives_ms > 0 and lives_ms < 6001 then ahead = -tonumber(call('ZSCORE', waiting, line_name .. ' units') or 0) end
end
