--[[
  Sets a rate, and plans those who wait anew under it.

  KEYS[1..6]  see rate_open
  KEYS[7..]   log and line of each further client that is known to have state
  KEYS[last]  what the sender has sent: see once
  ARGV[1]     number of the request; ARGV[2] the lowest that is not answered
  ARGV[3]     now, ms; '' for the server's clock
  ARGV[4]     when: 'absent', 'present' or 'always'
  ARGV[5]     1 to keep what was granted, 0 to forget it
  ARGV[6]     rate
  ARGV[7]     interval, ms
  ARGV[8]     mode: 'overall' or 'per-client'
  ARGV[9]     how long the limiter lives unused, ms; -1 for ever
  ARGV[10]    what the channel of every process begins with
  ARGV[11..]  the clients whose keys are given: this one, then the further ones in their order

  Returns 1, or 0 if it was not set because of `when`. Or the clients whose keys were not given, and nothing was done.
]]
-- @include now_ms
-- @include once
-- @include rate_open
-- @include rate_parties
-- @include rate_plan
local number, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = ARGV[3]
local now = now_ms(clock)
local when = ARGV[4]
local keep = ARGV[5] == '1'
local rate_given, interval_given, mode_given, keep_alive_given = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local channel = ARGV[10]

local function whole(value) return string.format('%.0f', value) end

return once(KEYS[#KEYS], number, floor, function()
  local before = rate_open(clock, now)
  if (when == 'absent' and before) or (when == 'present' and not before) then return { 0 } end
  local parties, strangers = rate_parties(11)
  if not parties then return strangers end
  -- What counted apart will count together, or the other way round: who waits asks again.
  local moved = before and before.fleeting ~= (mode_given == 'per-client')
  local epoch = before and before.epoch
  if moved or not before then
    local time = redis.call('TIME')
    epoch = time[1] * 1000000 + time[2]
  end
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'rate', rate_given, 'interval', interval_given, 'mode', mode_given, 'epoch', whole(epoch))
  if keep_alive_given ~= '-1' then redis.call('HSET', KEYS[1], 'keepAlive', keep_alive_given) end
  if before and before.ends_at then
    redis.call('HSET', KEYS[1], 'endsAt', whole(before.ends_at))
    redis.call('PEXPIREAT', KEYS[1], before.expires_at(before.ends_at - now))
  end
  local rate = rate_open(clock, now)
  local sent_away = false
  rate.use(rate_plan(rate, parties, now, clock, channel, not (keep and before), function(waiter)
    if moved then return -3 end
    if not before then return -2 end
    if waiter.cost <= rate.limit.quota then return nil end
    sent_away = true
    return -1
  end))
  if sent_away then redis.call('HINCRBY', KEYS[1], 'epoch', '1') end
  return { 1 }, true, rate.keep_alive > 0 and rate.keep_alive or nil
end)
