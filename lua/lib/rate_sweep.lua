--[[
  Plans anew the turns of bookings from the ticket state.replan on, in the order in which they were asked for; at most 500, then
  state.replan says where to go on. Notes in state.news each ticket whose turn changed, and the turn; -1 for a booking that can
  never fit any more, which is dropped.

  A turn that is about to come is never put off: its owner may be on his way before he hears of it.
]]
-- @include booking_pack
-- @include booking_unpack
-- @include booking_search
-- @include rate_moment
local function rate_sweep(state, config, now)
  local queue = state.queue_key
  local length = redis.call('LLEN', queue)
  local from = booking_search(queue, 0, length, function(_, _, ticket) return ticket >= state.replan end)
  local bookings = redis.call('LRANGE', queue, from, from + 499)
  local total, turn = state.base, 0
  if from > 0 then turn, total = booking_unpack(redis.call('LINDEX', queue, from - 1)) end
  local planned_total = total
  local promised = now + 50
  local totals, turns = {}, {}
  local count, oldest = 0, 1
  local dropped = false
  state.found = nil

  for i, booking in ipairs(bookings) do
    local old_turn, old_total, ticket, permits = booking_unpack(booking)
    if old_turn > now and permits > config.rate then
      redis.call('LSET', queue, from + i - 1, '')
      state.news[#state.news + 1] = string.format('%.0f -1', ticket)
      dropped = true
    else
      total = total + permits
      local new_turn = old_turn
      if old_turn > now then
        local reached = total - config.rate
        local at
        if reached <= planned_total then
          at = rate_moment(state, reached, from)
        else
          while totals[oldest] < reached do oldest = oldest + 1 end
          at = turns[oldest]
        end
        new_turn = math.max(now, turn, at and at + config.interval or 0)
        if new_turn > old_turn and old_turn <= promised then new_turn = old_turn end
      end
      if new_turn ~= old_turn or total ~= old_total then
        redis.call('LSET', queue, from + i - 1, booking_pack(new_turn, total, ticket, permits))
      end
      if new_turn ~= old_turn then
        state.news[#state.news + 1] = string.format('%.0f %.0f', ticket, new_turn)
      end
      turn = math.max(turn, new_turn)
      count = count + 1
      totals[count], turns[count] = total, turn
    end
  end

  state.replan = nil
  if from + #bookings < length then
    local _, _, ticket = booking_unpack(redis.call('LINDEX', queue, from + #bookings))
    state.replan = ticket
  end
  if dropped then redis.call('LREM', queue, '0', '') end
  state.found = nil
  state.changed = true
end
