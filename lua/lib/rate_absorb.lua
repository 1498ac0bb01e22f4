--[[
  Moves bookings whose turn has come into the log; at most 500, and none whose turn is still to be planned anew. Returns how many,
  and whether more are due.
]]
-- @include log_pack
-- @include booking_unpack
local function rate_absorb(state, now)
  local log = state.log
  local bookings = redis.call('LRANGE', state.queue_key, '0', '499')
  local entries = {}
  local count, size, newest = 0, 0, log.newest or 0
  local last_total, more
  for _, booking in ipairs(bookings) do
    local turn, total, ticket = booking_unpack(booking)
    if turn > now then break end
    if state.replan and ticket >= state.replan then
      more = true
      break
    end
    count = count + 1
    -- Turns never fall, but a clock that ran back may have moved the log past them.
    if size == 0 or turn > newest then
      newest = math.max(newest, turn)
      size = size + 1
    end
    entries[size] = log_pack(newest, total)
    last_total = total
    state.absorbed = ticket
  end
  if count == 0 then return 0, more end
  redis.call('LTRIM', state.queue_key, count, '-1')
  local from = 1
  if not log.stored then
    if log.rubbish then redis.call('DEL', state.log_key) end
    redis.call('RPUSH', state.log_key, log_pack(0, state.base))
  else
    local at = struct.unpack('>I6', entries[1])
    if at == log.stored then
      redis.call('LSET', state.log_key, '-1', entries[1])
      from = 2
    end
  end
  if from <= size then redis.call('RPUSH', state.log_key, unpack(entries, from, size)) end
  state.changed = true
  state.spent = true
  return count, more or count == #bookings and count == 500
end
