--[[
  The fast path for most requests under one limit whose state is a row: one request of cost 1, by the server's clock, that is admitted while no key is blocked
  and none waits. It creates no table and no function, and takes a quarter less of the server's time than steps/decide_rows. In any other case it writes
  nothing, and steps/decide_rows decides from the start. The code of an algorithm replaces @here.

  Reads what steps/open_one gives, algorithm and shaped.
]]
if lone then
  local key, read = KEYS[3], struct.unpack
  -- An error is a table, which has no length: a key of another type is no row.
  local value, failure, at = redis.pcall('GET', key), nil, nil
  local x, y, expires, asked_in, strange, cost = 0, 0, 0, 0, false, 1
  -- @include steps/read_row
  -- A bucket of a limit that was changed is scaled by functions.
  local is_changed = at and costs_at > 4 and algorithm ~= 'calendar-window' and y ~= burst * window
  if not failure and not is_changed then
    local retry, remaining, reset, delay, next_at, next_x, next_y
    -- @here measure
    if retry == 0 then
      -- As in steps/spend_row, but the lifetime is asked for in any case.
      local server_now, padding, left = now, 3000, at and at <= now and call('PTTL', key)
      -- @include steps/lifetime
      local row = struct.pack('<ddddd', next_at, next_x, next_y, expire_at or now + left, now - now % 1000)
      if expire_at then
        call('SET', key, row, 'PXAT', expire_at)
      else
        call('SETRANGE', key, '0', row)
      end
      if shaped then return { now, remaining, reset, delay } end
      local most = algorithm == 'calendar-window' and quota or burst
      -- @include steps/answer_lone
    end
  end
end
