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
-- @include rate_parties
-- @include rate_plan
local number, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = ARGV[3]
local now = now_ms(clock)
local left = tonumber(ARGV[4])
local channel = ARGV[5]

return once(KEYS[#KEYS], number, floor, function()
  local rate = rate_open(clock, now)
  if not rate then return { 0 } end
  local parties, strangers = rate_parties(6)
  if not parties then return strangers end
  local sent_away = false
  local function word_for(waiter)
    if waiter.turn - now < left then return nil end
    sent_away = true
    return -2
  end
  if left == 0 then
    rate_plan(rate, parties, now, clock, channel, true, word_for)
    redis.call('DEL', KEYS[1], KEYS[2], KEYS[#KEYS])
    for _, party in ipairs(parties) do redis.call('DEL', party.log, party.line) end
    -- Nothing is left behind: sent again, it would be answered 0.
    return { 1 }, false
  end
  redis.call('HSET', KEYS[1], 'endsAt', string.format('%.0f', now + left))
  local ending = rate_open(clock, now)
  redis.call('PEXPIREAT', KEYS[1], ending.expires_at(left))
  ending.use(rate_plan(ending, parties, now, clock, channel, false, word_for))
  if sent_away then redis.call('HINCRBY', KEYS[1], 'epoch', '1') end
  return { 1 }, true, left
end)
