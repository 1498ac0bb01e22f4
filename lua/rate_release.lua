--[[
  Gives permits back, the newest grants first, and lets those who wait move up.

  KEYS[1..6]  see rate_open
  KEYS[7]     what the sender has sent: see once
  ARGV[1]     number of the request; ARGV[2] the lowest that is not answered
  ARGV[3]     now, ms; '' for the server's clock
  ARGV[4]     client
  ARGV[5]     permits
  ARGV[6]     what the channel of every process begins with
  ARGV[7]     id of a waiter who gives up, "process/number": it gives back its booking, or what it was granted meanwhile; '' for none

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
local id = ARGV[7]

return once(KEYS[7], number, floor, function()
  local rate = rate_open(clock, now)
  if not rate then return { -2 } end
  local state = rate_state(rate, now, clock)
  if state.err then return redis.error_reply(state.err) end
  local waiting = waiting_now(rate.line, now)
  local first = 1
  for i, waiter in ipairs(waiting) do
    if waiter.id == id then
      first = i
      table.remove(waiting, i)
      break
    end
  end
  replan(state, rate.line, waiting, first, permits, now, channel, rate.expires_at)
  local _, _, reset = state.measure(0)
  if rate.fleeting and reset > 0 then rate.register(client, reset) end
  rate.use(reset)
  return { 1 }, true
end)
