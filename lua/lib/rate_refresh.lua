--[[
  Reads the log and the ends of the queue again after something was written. Fields of the state:
    log     from log_open                base   total spent with everything in the log; the queue goes on from there
    gone    total that has expired       tail_turn, tail_total   of the last booking (nil: none)
    length  of the queue
]]
-- @include log_open
-- @include booking_unpack
local function rate_refresh(state, config, now)
  state.found = nil
  local log = log_open(state.log_key, config.interval, now, true)
  if log.err then return log.err end
  state.log = log
  state.base, state.gone = log.total, log.gone
  state.length = redis.call('LLEN', state.queue_key)
  state.tail_turn, state.tail_total = nil, nil
  if state.length == 0 then return end
  if not log.newest then
    -- All that was spent has expired, or the log was lost: totals go on from where the queue begins.
    local _, total, _, permits = booking_unpack(redis.call('LINDEX', state.queue_key, '0'))
    state.base, state.gone = total - permits, total - permits
  end
  state.tail_turn, state.tail_total = booking_unpack(redis.call('LINDEX', state.queue_key, '-1'))
end
