--[[
  Repairs the deadlines of leases after the server's clock was set back: moves each so that the lease lasts as long as it had left when a lease was last
  written. The newest token, which is in µs and never falls, shows that the clock was set back. If the step is shorter than a lease, nothing is changed,
  because leases from before and after the step cannot be told apart.
]]
local SEMAPHORE_BATCH = 1000

local function semaphore_repair_clock(s)
  if s.last - s.micros < 1000000 or not s.stored[1] then return end
  -- While the clock is behind the newest token, each token is one more than the last: then all leases are repaired already, or newer than the step.
  if s.last - (tonumber(redis.call('HGET', s.config, 'mended') or nil) or 0) < 1000000 then return end
  local written = math.floor(s.last / 1000)
  local behind = written - s.now
  local leases = redis.call('ZRANGEBYSCORE', s.leases, written + 1, SEMAPHORE_ABOVE, 'WITHSCORES')
  if #leases > 0 and leases[#leases] - written > behind then return end
  for from = 1, #leases, SEMAPHORE_BATCH do
    local entries = {}
    for i = from, math.min(#leases, from + SEMAPHORE_BATCH - 1), 2 do
      entries[#entries + 1] = string.format('%.0f', leases[i + 1] - behind)
      entries[#entries + 1] = leases[i]
    end
    redis.call('ZADD', s.leases, unpack(entries))
  end
  redis.call('HSET', s.config, 'mended', string.format('%.0f', s.last))
end
