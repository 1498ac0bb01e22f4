--[[
  The capacity (see line_walk and line_ask) of an opened semaphore. A grant is a lease, held by `member`, with the length and the id in the waiter's `own`
  text. Changes: 'e' ends a lease by its id and token. 'v' invalidates the calls that a sender of direct takes has in flight, and returns the token that
  its next call must name. 'd' does the same, and opens the semaphore for direct takes if nobody waits.
]]
-- @include semaphore_open
-- @include semaphore_end
-- @include semaphore_lease
-- @include semaphore_next_token
local SEMAPHORE_LOOK_MS = 5000

local function semaphore_capacity(s, member)
  local function id_of(own) return string.match(own, '^%d+ (%S+)$') end
  local function give_back(_, own) semaphore_end(s, id_of(own)) end
  return {
    now = s.now,
    most = s.permits,
    late = -1,
    guesses = true,
    when = function(ahead, cost)
      if cost > s.permits then return -1 end
      if cost <= s.permits - s.used - ahead then return 0 end
      if s.first == nil then s.first = semaphore_first_end(s) or false end
      return s.first and math.max(1, math.min(SEMAPHORE_LOOK_MS, s.first - s.now)) or SEMAPHORE_LOOK_MS
    end,
    grant = function(cost, own, into)
      local ms, id = string.match(own, '^(%d+) (%S+)$')
      ms = tonumber(ms)
      s.used = s.used + cost
      s.extra = s.extra + cost - 1
      local token, deadline = semaphore_lease(s, id, ms, cost, member)
      if s.first ~= nil then s.first = math.min(s.first or deadline, deadline) end
      into[#into + 1] = token
      into[#into + 1] = deadline
    end,
    holds = function() return s.used > 0 end,
    give_back = give_back,
    rejoin = give_back,
    change = function(letter, id, token)
      if letter == 'e' then return semaphore_end(s, id, token) end
      local stamp = semaphore_next_token(s)
      redis.call('ZADD', s.leases, stamp, id)
      s.directs = s.directs or letter == 'd'
      return tonumber(stamp)
    end,
  }
end
