--[[
  Writes what has changed of a semaphore, and gives its keys their lifetimes: leases until the last of them ends, the line for as long as
  somebody in it is heard of, and the configuration for `idle` ms more, if it has such a lifetime.
]]
-- @include semaphore_put
local SEMAPHORE_LINE_MS = 10000

local function semaphore_save(s)
  local lives = 0
  -- Without permits out there are no leases, and Redis has dropped the empty key.
  local latest = s.used ~= 0 and tonumber(redis.call('ZRANGE', s.leases, '-1', '-1', 'WITHSCORES')[2])
  s.calm = s.now + 1000000000
  if latest then
    lives = math.max(0, latest - s.now) + s.padding
    redis.call('PEXPIRE', s.leases, lives)
    s.calm = tonumber(redis.call('ZRANGE', s.leases, '0', '0', 'WITHSCORES')[2])
  end
  if s.crowded and redis.call('EXISTS', s.line, s.offers) > 0 then
    s.calm = 0
    lives = math.max(lives, SEMAPHORE_LINE_MS)
    redis.call('PEXPIRE', s.line, SEMAPHORE_LINE_MS)
    redis.call('PEXPIRE', s.offers, SEMAPHORE_LINE_MS)
    redis.call('PEXPIRE', s.parties, SEMAPHORE_LINE_MS)
  elseif s.left then
    redis.call('DEL', s.parties)
  end
  if lives > 0 then redis.call('PEXPIRE', s.facts, lives) end
  s.life = s.now + lives
  semaphore_put(s)
  if s.idle then redis.call('PEXPIRE', s.config, lives + s.idle) end
end
