--[[
  Plans anew those who wait from `first` on, in their order: what they had booked and `extra` units more are given back, then each
  books again. Between the two, change() does to the state what else has happened. Writes the list and the state, and tells those who
  have moved their new waits.
]]
-- @include waiter_pack
-- @include tell_waiters
local function replan(state, list, waiting, first, extra, now, channel, expires_at, change)
  local units = extra
  for i = first, #waiting do units = units + waiting[i].cost end
  if units > 0 then state.refund(units) end
  if change then change() end
  redis.call('LTRIM', list, '0', first - 2)
  if first == 1 then redis.call('DEL', list) end
  for i = first, #waiting do
    local waiter = waiting[i]
    local wait = state.measure(waiter.cost)
    -- A limit that has since become too small for it: as if it came last, after all that is owed.
    if wait < 0 then wait = waiter.turn - now end
    state.book(waiter.cost, wait)
    waiter.turn = now + wait
    redis.call('RPUSH', list, waiter_pack(waiter.turn, waiter.cost, waiter.id))
  end
  state.save()
  if #waiting > 0 then redis.call('PEXPIREAT', list, expires_at(waiting[#waiting].turn - now)) end
  tell_waiters(waiting, first, channel, function(waiter) return waiter.turn - now end)
end
