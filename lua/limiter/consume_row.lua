--[[
  Decides a batch under one limit whose state is a row, in order, all at the same instant. It is built once for each
  algorithm that has such a state, which ALGORITHM stands for. It does the same as consume, without the additional work
  for several limits and logs. Most requests are decided by this script, and every one pays for each instruction: so it
  avoids functions and tables.

  KEYS        the block list of the limit (ZSET member → blocked until, ms), the units that wait in its lines (see
              line_note_units); then the key of each request
  ARGV[1]     until when this may be carried out, and the clock: see moment
  ARGV[2…]    the limit: quota, window in ms, for a bucket its burst, for a calendar window its beginning; then the cost
              of each request, one for all, or none where all cost 1

  Returns what consume returns; or one number for one request that is admitted: see answer_lone.
]]
local algorithm, shaped, has_burst = 'ALGORITHM', false, false
-- @choose traits
-- @inline decision.arguments
if algorithm == 'calendar-window' then
  check_calendar_window(now, burst, window)
end

-- The fast path for most requests: one of cost 1, by the server's clock, that is admitted while no key is blocked and
-- none waits. It takes a quarter less of the server's time than what follows. In any other case it writes nothing, and
-- the rest of the script decides from the start.
if lone then
  local key, read = KEYS[3], struct.unpack
  -- An error is a table, which has no length: a key of another type is no row.
  local value, failure, at = redis.pcall('GET', key), nil, nil
  local x, y, expires, asked_in, may_be_foreign, cost = 0, 0, 0, 0, false, 1
  -- @inline decision.read_row
  if not failure then
    local retry, remaining, reset, delay, next_at, next_x, next_y
    -- @inline ALGORITHM.measure
    if retry == 0 then
      -- As in spend_row, but the lifetime is asked for in any case.
      local server_now, padding, left = now, 3000, at and at <= now and call('PTTL', key)
      -- @inline decision.lifetime
      local row = struct.pack('<ddddd', next_at, next_x, next_y, expire_at or now + left, now - now % 1000)
      if expire_at then
        call('SET', key, row, 'PXAT', expire_at)
      else
        call('SETRANGE', key, '0', row)
      end
      if shaped then return { now, remaining, reset, delay } end
      local most = algorithm == 'calendar-window' and quota or burst
      -- @inline decision.answer_lone
    end
  end
end

-- @inline decision.answer
local keys, shared = KEYS, 2
local count, waiting = #keys, keys[2]
local one_cost = #ARGV <= costs_at and tonumber(ARGV[costs_at] or 1)

-- MGET answers nil for a key of another type as for none at all.
local values = call('MGET', unpack(keys, 3))
local missing
for i = 3, count do
  if not values[i - 2] then
    missing = missing or {}
    missing[#missing + 1] = keys[i]
  end
end
local may_be_foreign = missing and call('EXISTS', unpack(missing)) > 0

-- The pending writes stand in `values`; spend_row notes their places, because some keys are in the batch twice.
local expire_ats, place, together = {}, {}, count > 3
for i = 3, count do
  local key = keys[i]
  local slot = place[key] or i - 2
  local value = values[slot]
  local failure, at
  local x, y, expires, asked_in = 0, 0, 0, 0
  -- @inline decision.read_row
  if failure then
    size = size + 1
    out[size] = failure
  else
    local cost = one_cost or tonumber(ARGV[costs_at - 3 + i])
    local blocked_until = blocks_or_waiters and tonumber(call('ZSCORE', keys[1], key) or 0) or 0
    local blocked = blocked_until > now
    local line_name = key
    -- @inline decision.read_ahead
    local wait = 0
    if ahead > 0 and cost > 0 then
      wait = functions_of(algorithm).ahead({ quota = quota, window = window, burst = burst }, now, ahead, cost, at, x, y)
    end
    local retry, remaining, reset, delay, next_at, next_x, next_y
    repeat
      -- @inline ALGORITHM.measure
      -- A blocked or waiting key spends nothing: a limit that would allow the request reports its present state.
      local again = (blocked or wait > 0) and retry == 0 and cost > 0
      if again then cost = 0 end
    until not again
    if wait > retry and retry >= 0 then retry = wait end
    if spending then
      -- @inline decision.spend_row
    end
    -- @inline decision.add_verdict
  end
end

-- @inline decision.write_rows
if quota > 9007199254740928 or window > 9007199254740928 then
  large_numbers_as_text(out)
end
return out
