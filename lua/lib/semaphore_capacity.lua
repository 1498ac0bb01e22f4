--[[
  The capacity (see line_walk and line_ask) of an opened semaphore. A grant is a lease, held by `member`, with the length and the id in the waiter's `own`
  text. Changes: 'e' ends a lease by its id and token. 'v' invalidates the calls that a sender of direct takes has in flight, and returns the token that
  its next call must name. 'd' does the same, and opens the semaphore for direct takes if nobody waits. Both return 0 if the semaphore has a lifetime
  (`idle`): then permits are never taken directly, because records of senders could outlive it.
]]
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
      return s.first and math.max(1, math.min(SEMAPHORE_LOOK_MS, s.first - s.now)) or SEMAPHORE_LOOK_MS
    end,
    grant = function(cost, own, into)
      local ms, id = string.match(own, '^(%d+) (%S+)$')
      ms = tonumber(ms)
      s.bare = s.bare or s.used == 0
      s.used = s.used + cost
      local token, deadline = semaphore_lease(s, id, ms, cost, member)
      s.first = math.min(s.first or deadline, deadline)
      into[#into + 1] = token
      into[#into + 1] = deadline
    end,
    holds = function() return s.used > 0 end,
    give_back = give_back,
    rejoin = give_back,
    change = function(letter, id, token)
      if letter == 'e' then return semaphore_end(s, id, token) end
      if s.idle then return 0 end
      local stamp = semaphore_next_token(s)
      redis.call('ZADD', s.leases, stamp, id)
      s.sender_told = true
      s.directs = s.directs or letter == 'd'
      return tonumber(stamp)
    end,
  }
end
