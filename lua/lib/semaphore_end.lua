--[[
  Ends a lease of a semaphore: only if it has this token; nil: whatever its token is. The name of a lease without a fact begins with '~'; a process that
  does not hold the lease gives the name without '~'. Returns 1, or 0 if there is no such lease, or if its deadline has passed (semaphore_sweep removes it then); and the member
  that held it, if known. semaphore_save removes it, together with all other changes.
]]
-- @include semaphore_parse_fact
local function semaphore_end(s, id, token)
  if s.dropped == nil then s.dropped = {} end
  if s.dropped[id] then return 0 end
  local fact = redis.call('HGET', s.facts, id)
  local permits, member, stamp = semaphore_parse_fact(fact)
  if fact then
    if token and token ~= stamp then return 0 end
  elseif string.sub(id, 1, 1) ~= '~' then
    if token then return 0 end
    id = '~' .. id
    if s.dropped[id] then return 0 end
  end
  local deadline = tonumber(redis.call('ZSCORE', s.leases, id) or nil)
  if not deadline or deadline <= s.now then return 0 end
  s.dropped[id] = true
  s.ids_to_drop[#s.ids_to_drop + 1] = id
  s.used = s.used - permits
  s.extra = s.extra - permits + 1
  return 1, member
end
