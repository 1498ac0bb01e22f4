--[[
  The fast path for most requests: a request that comes alone and is admitted. It creates no table and no function. In any unusual
  case it writes nothing, and steps/decide_rows decides the request from the start. The code of an algorithm replaces @here.

  The row stores the moment at which its key expires. That moment less PTTL is the time, which is cheaper than TIME. Its sign tells whether a key may be
  blocked or a request may wait: see read_row. A time before the row's own is not trusted. Reads what steps/open_one gives, algorithm and shaped.
]]
if lone then
  local key, read = KEYS[3], struct.unpack
  -- An error is a table, which has no length: a key of another type is no row.
  local value = redis.pcall('GET', key)
  if value and #value == 32 then
    local at, x, y, expires = read('<dddd', value)
    local left = call('PTTL', key)
    local now, calendar = expires - left, algorithm == 'calendar-window'
    -- Another window of the calendar than the asker has computed is left to steps/check_calendar_window.
    if calendar and (now < burst or now >= burst + window) then left = 0 end
    -- A bucket of a limit that was changed is scaled by functions.
    if costs_at > 4 and y ~= burst * window then left = 0 end
    if left > 0 and at <= now and now <= valid_until and now > valid_until - 65536 then
      local cost = 1
      local retry, remaining, reset, delay, next_at, next_x, next_y
      -- @here measure
      if retry == 0 then
        if expires >= now + reset + 1000 then
          call('SETRANGE', key, '0', struct.pack('<ddd', next_at, next_x, next_y))
        else
          -- As in steps/spend_row.
          expires = now + reset + math.min(reset / 4, 3600000) + 4999
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
