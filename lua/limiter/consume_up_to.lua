--[[
  Spends as many units as fit under all limits, at most the requested number. If not even one fits, it spends nothing
  and refuses a request of one unit.

  KEYS      the block list of each limit (ZSET member → blocked until, ms); the units that wait in the lines of the
            policy (see line_note_units); the state of each limit
  ARGV[1]   now, ms; '' for the server's clock
  ARGV[2]   units, at most
  ARGV[3]   number of limits, then for each: algorithm, quota, window in ms, burst
  ARGV[…]   last: until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else now, the units that were spent or 1, then for each limit what
  consume returns; an error of the first key that holds something else.
]]
local clock = ARGV[1]
local now = now_ms(clock)
if is_late(now) then return { now } end
local server_now = clock == '' and now or now_ms('')
local call = redis.call
local units, count = tonumber(ARGV[2]), tonumber(ARGV[3])
local limits = read_limits(4, count, now)
local expires_at = expiry(clock, now)
local waiting, keys = KEYS[count + 1], { unpack(KEYS, count + 2) }

local blocks_or_waiters = call('EXISTS', unpack(KEYS, 1, count + 1)) > 0
local line_name = table.concat(keys, ' ')
-- @inline decision.read_ahead
local states, blocked_ends, some_blocked = {}, {}, false
for i = 1, count do
  local state = open_state(limits[i], keys[i], now, expires_at)
  if state.err then return redis.error_reply(state.err) end
  states[i] = state
  blocked_ends[i] = blocks_or_waiters and block_end(KEYS[i], keys[i]) or 0
  if blocked_ends[i] > now then some_blocked = true end
  local _, remaining = state.look(0)
  units = math.min(units, remaining - ahead)
end
units = math.max(1, units)

-- How long a request of so many has to wait behind those in line; 0: it goes.
local function wait(i, cost)
  return ahead > 0 and states[i].ahead(limits[i], ahead, cost, true) or 0
end
local function fits(cost)
  for i = 1, count do
    if states[i].look(cost) ~= 0 or wait(i, cost) ~= 0 then return false end
  end
  return not some_blocked
end
-- What remains fits, but for a rounding; at most 53 halvings.
while units > 1 and not fits(units) do units = math.floor(units / 2) end
local allowed = fits(units)

local out, size = { now, units }, 2
for i = 1, count do
  local algorithm, shaped, has_log, has_burst = limits[i].algorithm, false, false, false
  -- @choose traits
  -- If nothing is spent, the verdict of a limit that would have allowed the request shows its unchanged state.
  local retry, remaining, reset, delay = states[i].look(units)
  if not allowed and retry == 0 then retry, remaining, reset, delay = states[i].look(0) end
  if retry >= 0 then retry = math.max(retry, wait(i, units)) end
  local blocked_until = blocked_ends[i]
  local blocked = blocked_until > now
  -- @inline decision.add_verdict
end
for i = 1, count do
  if allowed then states[i].grant(limits[i], units) end
  states[i].save()
end
large_numbers_as_text(out)
return out
