--[[
  Sets `ahead` to the units of the waiters in the line of `line_name`, a member of the ZSET `waiting` (see line_mark), or to 0. A mark lasts
  for 7 s at most, so a later one is from before the server's clock was set back. Reads some_kept and server_now; uses call.
]]
local ahead = 0
if some_kept then
  local mark = tonumber(call('ZSCORE', waiting, line_name) or nil)
  local lives_ms = mark and mark / 4194304 * 1000 - server_now or 0
  if lives_ms > 0 and lives_ms < 7001 then ahead = mark % 4194304 end
end
