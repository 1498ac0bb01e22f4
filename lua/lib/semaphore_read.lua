--[[
  Reads a semaphore as it was left: `keys` and the result are those of semaphore_open, which also takes away what is over. Not needed
  before the moment `calm`, in ms: until then nothing can be over, and nobody waits.
]]
local function semaphore_read(keys, clock, initial, idle)
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local s = {
    micros = micros,
    now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
    padding = clock == '' and 1000 or 5000,
  }
  s.config, s.leases, s.facts, s.line, s.offers, s.parties = unpack(keys, 1, 6)
  s.stored = redis.call('HMGET', s.config, 'permits', 'used', 'last', 'idle', 'calm', 'life')
  s.permits = tonumber(s.stored[1])
  if initial < -1 then
    s.permits = -2 - initial
  elseif not s.permits then
    if initial < 0 then return nil end
    s.permits = initial
  end
  s.used = tonumber(s.stored[2])
  s.last = tonumber(s.stored[3]) or 0
  s.idle = tonumber(s.stored[4])
  s.calm = s.used and tonumber(s.stored[5]) or 0
  s.life = tonumber(s.stored[6]) or 0
  if idle >= 0 then s.idle = idle end
  return s
end
