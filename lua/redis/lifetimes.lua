-- How long keys live. No decision depends on it: a key goes some seconds after its state is as if never used, for what
-- the clocks of two nodes of a cluster may differ by. EXPIRE, PERSIST, RESTORE and MIGRATE change lifetimes.
local lifetimes = {}

--- For how many ms a key is to live whose state matters for `reset` ms, and which would live for `left` ms now (0: it
--- is new). It lives a quarter longer if it is used again, so that this is not due each time: what a bucket owes grows
--- with each decision.
function lifetimes.of(reset, left)
  local longer = left > 0 and math.min(reset / 4, 3600000) or 0
  -- A value of somebody else under our key may read as any number.
  return math.min(math.ceil(reset + longer + 4000), 9007199254740991)
end

--- Sees to it that a key lives whose state matters for `reset` ms.
function lifetimes.see_to(key, reset)
  local left = redis.call('PTTL', key)
  if left < reset + 3000 then redis.call('PEXPIRE', key, lifetimes.of(reset, left)) end
end

return lifetimes
