--[[
  What an opened semaphore can still grant, as line_walk and line_ask describe it. What a waiter is granted is a lease of the id that its own
  text names, held by `member`; the change 'e' ends a lease by its id and token.
]]
-- @include semaphore_end
-- @include semaphore_lease
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
    give_back = give_back,
    rejoin = give_back,
    change = function(letter, id, token) return letter == 'e' and semaphore_end(s, id, token) or 0 end,
  }
end
