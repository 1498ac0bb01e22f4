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
-- @include rate_state
-- @include rate_strangers
-- @include rate_tell
-- @include replan
local number, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = ARGV[3]
local now = now_ms(clock)
local when = ARGV[4]
local keep = ARGV[5] == '1'
local rate_given, interval_given, mode_given, keep_alive_given = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local channel = ARGV[10]

local function plan_anew(before, rate, log, line, client)
  local waiting = waiting_now(line, now)
  rate.log, rate.line = log, line
  -- What counted apart will count together, or the other way round: who waits books again.
  local moved = before and before.fleeting ~= rate.fleeting
  local staying, leaving, units = {}, {}, 0
  for _, waiter in ipairs(waiting) do
    if not before or moved or waiter.cost > rate.limit.quota then
      leaving[#leaving + 1] = waiter
      units = units + waiter.cost
    else
      staying[#staying + 1] = waiter
    end
  end
  if not keep or not before then redis.call('DEL', log) end
  if redis.call('EXISTS', log, line) > 0 then
    local state = rate_state(rate, now, clock)
    if state.err then
      -- Whatever it holds, it is no log of ours.
      redis.call('DEL', log)
      state = rate_state(rate, now, clock)
    end
    replan(state, line, staying, 1, units, now, channel, rate.expires_at)
    local _, _, reset = state.measure(0)
    if redis.call('EXISTS', log) == 1 then redis.call('PEXPIREAT', log, rate.expires_at(reset)) end
    rate.use(reset, client)
  end
  rate_tell(leaving, moved and '-3' or (before and '-1' or '-2'), channel)
end

return once(KEYS[#KEYS], number, floor, function()
  local before = rate_open(clock, now)
  if (when == 'absent' and before) or (when == 'present' and not before) then return { 0 } end
  local strangers = rate_strangers(11)
  if #strangers > 0 then return strangers end
  local ends_at = before and before.ends_at
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'rate', rate_given, 'interval', interval_given, 'mode', mode_given)
  if keep_alive_given ~= '-1' then redis.call('HSET', KEYS[1], 'keepAlive', keep_alive_given) end
  if ends_at then
    redis.call('HSET', KEYS[1], 'endsAt', string.format('%.0f', ends_at))
    redis.call('PEXPIREAT', KEYS[1], before.expires_at(ends_at - now))
  end
  local rate = rate_open(clock, now)
  rate.use(0)
  plan_anew(before, rate, KEYS[3], KEYS[4])
  plan_anew(before, rate, KEYS[5], KEYS[6], ARGV[11])
  for i = 7, #KEYS - 1, 2 do plan_anew(before, rate, KEYS[i], KEYS[i + 1], ARGV[12 + (i - 7) / 2]) end
  return { 1 }, true, tonumber(keep_alive_given) > 0 and tonumber(keep_alive_given) or nil
end)
