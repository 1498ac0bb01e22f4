--[[
  Gives server_now and padding for steps/lifetime, and `second`, the beginning of the present second. Reads clock and now; uses now_ms.

  A key may go some seconds after its state is as if never used: no decision depends on expiry. The padding is more than a second, in which a lifetime is not
  asked for again (see steps/spend_row), and what the clocks of two nodes of a cluster may differ by. A given clock may stand still while the server's does not,
  hence the longer padding.
]]
local server_now, padding = now, 3000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local second = server_now - server_now % 1000
