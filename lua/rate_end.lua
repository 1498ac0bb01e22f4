--[[
  Ends a shared rate with all its state, now or later. Those whose turn would come after the end are told.

  KEYS[1..6]  see rate_open
  KEYS[7..]   log and line of each further client that is known to have state
  KEYS[last]  what the sender has sent: see once
  ARGV[1]     number of the request; ARGV[2] the lowest that is not answered
  ARGV[3]     now, ms; '' for the server's clock
  ARGV[4]     in how many ms it ends; 0 now
  ARGV[5]     what the channel of every process begins with
  ARGV[6..]   the clients whose keys are given: this one, then the further ones in their order

  Returns 1, or 0 where no rate was set. Or the clients whose keys were not given, and nothing was done.
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
local left = tonumber(ARGV[4])
local channel = ARGV[5]

local function shorten(key, at)
  local lifetime = redis.call('PTTL', key)
  if lifetime == -1 or lifetime > left then redis.call('PEXPIREAT', key, at) end
end

-- Those whose turn comes in time keep it.
local function send_away(rate, log, line)
  rate.log, rate.line = log, line
  local staying, leaving, units = {}, {}, 0
  for _, waiter in ipairs(waiting_now(line, now)) do
    local late = waiter.turn - now >= left
    local list = late and leaving or staying
    list[#list + 1] = waiter
    if late then units = units + waiter.cost end
  end
  if #leaving == 0 then return end
  rate_tell(leaving, '-2', channel)
  if left == 0 then return end
  local state = rate_state(rate, now, clock)
  if not state.err then replan(state, line, staying, 1, units, now, channel, rate.expires_at) end
end

return once(KEYS[#KEYS], number, floor, function()
  local rate = rate_open(clock, now)
  if not rate then return { 0 } end
  local strangers = rate_strangers(6)
  if #strangers > 0 then return strangers end
  local pairs_of = { { KEYS[3], KEYS[4] }, { KEYS[5], KEYS[6] } }
  for i = 7, #KEYS - 1, 2 do pairs_of[#pairs_of + 1] = { KEYS[i], KEYS[i + 1] } end
  for _, pair in ipairs(pairs_of) do send_away(rate, pair[1], pair[2]) end
  if left == 0 then
    redis.call('DEL', KEYS[1], KEYS[2], KEYS[#KEYS])
    for _, pair in ipairs(pairs_of) do redis.call('DEL', pair[1], pair[2]) end
    -- Nothing is left behind: sent again, it would be answered 0.
    return { 1 }, false
  end
  redis.call('HSET', KEYS[1], 'endsAt', string.format('%.0f', now + left))
  local at = rate_open(clock, now).expires_at(left)
  shorten(KEYS[1], at)
  shorten(KEYS[2], at)
  for _, pair in ipairs(pairs_of) do
    shorten(pair[1], at)
    shorten(pair[2], at)
  end
  return { 1 }, true, left
end)
