--[[
  Extends leases, of several semaphores in one call.

  KEYS       for each semaphore six: see semaphore_open
  ARGV[1]    how many semaphores; then for each of them:
             now, ms ('' for the server's clock); lifetime in ms where nothing is held (-1: as stored); how many leases; then for each
             lease: id, fencing token, ms from now (0: only look)

  Returns for each lease its deadline, -1 if it is lost.
]]
-- @include semaphore_open
-- @include semaphore_save
local semaphores = tonumber(ARGV[1])
local at = 2
local reply = {}
for i = 1, semaphores do
  local clock, idle, count = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  at = at + 3
  local s = semaphore_open({ unpack(KEYS, i * 6 - 5, i * 6) }, clock, -1, idle)
  for _ = 1, count do
    local id, token, ms = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
    at = at + 3
    local deadline = s and tonumber(redis.call('ZSCORE', s.leases, id) or nil)
    if deadline then
      local _, _, stamp = semaphore_fact(redis.call('HGET', s.facts, id))
      if stamp ~= token then
        deadline = -1
      elseif ms > 0 then
        deadline = s.now + ms
        redis.call('ZADD', s.leases, deadline, id)
      end
    end
    reply[#reply + 1] = deadline or -1
  end
  if s then semaphore_save(s) end
end
return reply
