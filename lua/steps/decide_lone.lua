--[[
  The short way of most requests: one that comes alone, and is admitted. It makes no table, and no function. Whatever is
  unusual is left to steps/decide_rows, which begins anew: nothing has been written then. An algorithm stands in the place of @here.

  The row knows when its key may go, so that its lifetime tells the time, which takes less than TIME; and whether anybody may be blocked or wait: see
  read_row. A time that lies before the row's is not trusted. Reads what steps/open_one gives, algorithm and shaped.
]]
if lone then
  local key, read = KEYS[3], struct.unpack
  -- An error is a table, which has no length: a key of another type is no row.
  local value = redis.pcall('GET', key)
  if value and #value == 32 then
    local at, x, y, expires = read('<dddd', value)
    local left = call('PTTL', key)
    local now, calendar = expires - left, algorithm == 'calendar-window'
    -- Another window of the calendar than the asker has computed is left to steps/calendar_now.
    if calendar and (now < burst or now >= burst + window) then left = 0 end
    if left > 0 and at <= now and now <= valid_until and now > valid_until - 65536 then
      local cost = 1
      local retry, remaining, reset, delay, next_at, next_x, next_y
      -- @here measure
      if retry == 0 then
        if expires >= now + reset + 1000 then
          call('SETRANGE', key, '0', struct.pack('<ddd', next_at, next_x, next_y))
        else
          expires = now + reset + 4999
          expires = expires - expires % 4000
          call('SET', key, struct.pack('<dddd', next_at, next_x, next_y, expires), 'PXAT', expires)
        end
        if shaped then return { now, remaining, reset, delay } end
        local most = calendar and quota or burst
        -- @include steps/answer_lone
      end
    end
  end
end
