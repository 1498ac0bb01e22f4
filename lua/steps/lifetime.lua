--[[
  Gives `expire_at`, the moment at which a key may go whose state matters for `reset` ms more, or false if `left`, its present lifetime in ms (PTTL), suffices.
  Without `left` it is set in any case. No decision depends on a lifetime: EXPIRE, PERSIST, RESTORE and MIGRATE change it. Reads what steps/open_lifetimes gives.
]]
local expire_at = false
if not left or left < reset + padding then
  -- A key that is used again lives a quarter longer, so that this is not due each time: what a bucket owes grows with each decision.
  local longer = left and math.min(reset / 4, 3600000) or 0
  expire_at = math.floor(server_now + reset + longer + padding + 1000)
end
