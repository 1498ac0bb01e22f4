--[[
  Starts a lease now: a new one, or one that is taken over. Returns its token and its deadline. semaphore_save writes it, together with all other
  changes.
]]
-- @include semaphore_note_holder
-- @include semaphore_next_token
local function semaphore_lease(s, id, ms, permits, member)
  local token = semaphore_next_token(s)
  local deadline = s.now + ms
  local facts, entries = s.facts_to_write, s.entries_to_write
  if string.sub(id, 1, 1) == '~' then
    if not s.noted then semaphore_note_holder(s.leases, member, s.micros) end
    s.noted = true
  else
    facts[#facts + 1] = id
    facts[#facts + 1] = permits .. ' ' .. member .. ' ' .. token
  end
  entries[#entries + 1] = string.format('%.0f', deadline)
  entries[#entries + 1] = id
  s.latest = math.max(s.latest or 0, deadline)
  return token, deadline
end
