--[[
  Sets `ahead` to the units of those who wait in the line of `line_name`, a member of the ZSET `waiting` (see line_mark), or to 0. Reads
  some_kept and server_now; uses call.
]]
local ahead = 0
if some_kept then
  local mark = tonumber(call('ZSCORE', waiting, line_name) or nil)
  if mark and mark / 4194304 * 1000 > server_now then ahead = mark % 4194304 end
end
