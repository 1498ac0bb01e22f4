--[[
  Gives permits back, the newest grants first, and what was booked by waiters who give up. Lets those who wait move up.

  KEYS[1..6]  see rate_open
  KEYS[7]     what the sender has sent: see once
  ARGV[1]     number of the request; ARGV[2] the lowest that is not answered
  ARGV[3]     now, ms; '' for the server's clock
  ARGV[4]     client
  ARGV[5]     permits given back
  ARGV[6]     what the channel of every process begins with
  ARGV[7..]   of each waiter who gives up: its id, "process/number", its permits, and the epoch of its booking (see rate_open)

  Returns 1, or -2 where no rate is set.
]]
-- @include now_ms
-- @include once
-- @include rate_open
-- @include rate_state
-- @include waiting_now
-- @include replan
local number, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = ARGV[3]
local now = now_ms(clock)
local client = ARGV[4]
local permits = tonumber(ARGV[5])
local channel = ARGV[6]

return once(KEYS[7], number, floor, function()
  local rate = rate_open(clock, now)
  if not rate then return { -2 } end
  local state = rate_state(rate, now, clock)
  if state.err then return redis.error_reply(state.err) end
  local given_up = {}
  for i = 7, #ARGV, 3 do given_up[ARGV[i]] = i end
  local staying, units, first = {}, permits, nil
  if permits > 0 then first = 1 end
  for _, waiter in ipairs(waiting_now(rate.line, now)) do
    if given_up[waiter.id] then
      given_up[waiter.id] = nil
      units = units + waiter.cost
      first = first or #staying + 1
    else
      staying[#staying + 1] = waiter
    end
  end
  -- Who is not in the line was granted meanwhile; or it was sent away, which gave back what it had booked.
  for _, i in pairs(given_up) do
    if tonumber(ARGV[i + 2]) == rate.epoch then
      units = units + tonumber(ARGV[i + 1])
      first = 1
    end
  end
  if first then replan(state, rate.line, staying, first, units, now, channel, rate.expires_at) end
  local _, _, reset = state.measure(0)
  if rate.fleeting and reset > 0 then rate.register(client, reset) end
  rate.use(reset)
  return { 1 }, true
end)
