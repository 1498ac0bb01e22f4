--[[
  Reads a semaphore (see semaphore_read), removes some of the leases whose deadline has passed, and counts the others. Fields of the result: `used`, the number of held permits, and
  `extra`, how many of them are beyond one for each lease. Other changes of the result are written only by semaphore_save.

  semaphore_first_end returns when the first lease ends, in ms; nil without leases. If ended leases of several permits may remain, their permits are free a moment later.
]]
-- @include semaphore_read
-- @include semaphore_repair_clock
local function semaphore_open(keys, clock, initial, idle, floor, stored)
  local s = semaphore_read(keys, clock, initial, idle, floor, stored)
  if not s or s.err then return s end
  if clock == '' then semaphore_repair_clock(s) end
  s.extra = math.max(0, s.extra - semaphore_sweep(s.leases, s.facts, s.now, SEMAPHORE_SWEEP))
  if s.extra ~= 0 and redis.call('EXISTS', s.facts) == 0 then
    -- The facts were lost, and nobody knows any more whose permits these were.
    s.extra = 0
    redis.call('ZADD', s.leases, '-1', '!extra')
  end
  s.stored_extra = s.extra
  s.used = redis.call('ZCOUNT', s.leases, s.now + 1, SEMAPHORE_ABOVE) + s.extra
  return s
end

local function semaphore_first_end(s)
  if s.extra > 0 and redis.call('ZCOUNT', s.leases, '0', s.now) > 0 then return s.now + 1 end
  return tonumber(redis.call('ZRANGEBYSCORE', s.leases, s.now + 1, SEMAPHORE_ABOVE, 'WITHSCORES', 'LIMIT', '0', '1')[2])
end
