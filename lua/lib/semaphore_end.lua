--[[
  Ends a lease of a semaphore: only if it has this token; nil: whatever its token is. The name of a lease without a fact begins with '~'; a process that
  does not hold the lease gives the name without '~'. Returns 1, or 0 if there is no such lease; and the member that held it, if known. semaphore_save
  removes it, together with all other changes.
]]
-- @include semaphore_parse_fact
local function semaphore_end(s, id, token)
  if s.dropped == nil then s.dropped = {} end
  local permits, member, stamp = 1, nil, nil
  local fact = not s.dropped[id] and redis.call('HGET', s.facts, id)
  if fact then
    permits, member, stamp = semaphore_parse_fact(fact)
    if token and token ~= stamp then return 0 end
  else
    if string.sub(id, 1, 1) ~= '~' then
      if token then return 0 end
      id = '~' .. id
    end
    if s.dropped[id] or not redis.call('ZSCORE', s.leases, id) then return 0 end
  end
  s.dropped[id] = true
  s.ids_to_drop[#s.ids_to_drop + 1] = id
  s.used = math.max(0, s.used - permits)
  return 1, member
end
