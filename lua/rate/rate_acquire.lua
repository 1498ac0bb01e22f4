--[[
  Takes permits now, or books the earliest moment at which they are free after everyone who has booked before: first come, first
  served. Books nothing that would come later than the caller waits.

  KEYS[1..6]  see rate_open
  KEYS[7]     what the sender has sent: see once
  ARGV[1]     number of the request; ARGV[2] the lowest that is not answered
  ARGV[3]     now, ms; '' for the server's clock
  ARGV[4]     client
  ARGV[5]     permits
  ARGV[6]     how long the caller waits, ms; -1 for ever
  ARGV[7]     id of the waiter, "process/number"

  Returns wait in ms, the rate, and the epoch (see rate_open). Longer than the caller waits: nothing was booked; -1: more than the
  rate; -2: no rate is set, or none will be by then.
]]
-- @include now_ms
-- @include once
-- @include rate_open
-- @include rate_state
-- @include waiter_pack
local number, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = ARGV[3]
local now = now_ms(clock)
local client = ARGV[4]
local permits = tonumber(ARGV[5])
local patience = tonumber(ARGV[6])
local id = ARGV[7]

return once(KEYS[7], number, floor, function()
  local rate = rate_open(clock, now)
  if not rate then return { -2, 0, 0 } end
  local quota, epoch = rate.limit.quota, rate.epoch
  if permits > quota then return { -1, quota, epoch } end
  local state = rate_state(rate, now, clock)
  if state.err then return redis.error_reply(state.err) end
  local wait, _, reset = state.measure(permits)
  if permits == 0 or (patience >= 0 and wait > patience) then
    -- Who is refused uses the limiter too.
    _, _, reset = state.measure(0)
    rate.use(reset)
    return { wait, quota, epoch }
  end
  if rate.ends_at and now + wait >= rate.ends_at then return { -2, 0, 0 } end
  -- Those whose turn has come leave the line, a few at a time: fewer are added. A line that is something else fails here, before
  -- anything is written.
  for _ = 1, 16 do
    local first = redis.call('LINDEX', rate.line, '0')
    if not first or struct.unpack('>I6', first) > now then break end
    redis.call('LPOP', rate.line)
  end
  if rate.fleeting then rate.register(client, wait + rate.limit.window) end
  state.book(permits, wait)
  if wait > 0 then
    redis.call('RPUSH', rate.line, waiter_pack(now + wait, permits, id))
    redis.call('PEXPIREAT', rate.line, rate.expires_at(wait))
  end
  return { wait, quota, epoch }, true, rate.use(wait + rate.limit.window)
end)
