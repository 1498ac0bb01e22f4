--[[
  Opens a semaphore for direct takes: while nobody waits, taking a permit is one short script (semaphore_take), and giving it back is a plain
  ZREM. All leases are then in the key `direct`. The first script that needs the rest of the state renames that key to `leases` (semaphore_read): a
  ZREM then finds nothing, and its sender goes through the line instead.

  A lease in the ZSET whose name begins with '~' is of one permit, was taken directly or granted to a waiter, and has no fact. Above all deadlines (in ms) the ZSET
  also holds:

    !room       4e15 (more than any token) + the greatest number of leases
    !extra      4e15 + the number of permits held beyond one for each lease
    !last       the newest token
    @sender     the newest token given to a sender of direct takes, so that a repeated call is recognized
    &address    a process that has extended leases without a fact, or was granted some as a waiter, with the moment in µs: see semaphore_note_holder
]]
local SEMAPHORE_ABOVE = '100000000000000'

local function semaphore_direct(s)
  local count = redis.call('ZCOUNT', s.leases, '-inf', SEMAPHORE_ABOVE)
  local extra = s.used - count
  -- Senders and holders that were not heard of for longer than a call can be repeated and a lease without a fact can last.
  redis.call('ZREMRANGEBYSCORE', s.leases, SEMAPHORE_ABOVE, s.micros - 80000000)
  local room, beyond = string.format('%.0f', 4e15 + s.permits - extra), string.format('%.0f', 4e15 + extra)
  redis.call('ZADD', s.leases, room, '!room', beyond, '!extra', string.format('%.0f', s.last), '!last')
  redis.call('RENAME', s.leases, s.direct)
  -- It stores the last token, which lives as long as the number of permits.
  redis.call('PERSIST', s.direct)
end
