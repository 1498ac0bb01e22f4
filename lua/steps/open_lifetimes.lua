--[[
  Gives server_now and padding for steps/lifetime. Reads clock and now; uses now_ms.

  A key may go a little after its state is as if never used: no decision depends on expiry. A given clock may stand still while the
  server's does not, hence the longer padding.
]]
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
