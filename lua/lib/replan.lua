--[[
  Plans anew those who wait from `first` on, in their order: what they had booked and `extra` units more are given back, then each
  books again. Writes the list, the state and, to the channel of each process that has moved waiters, "number:wait …" with the new
  waits in ms.
]]
-- @include waiter_pack
local function replan(state, list, waiting, first, extra, now, channel, expires_at)
  local units = extra
  for i = first, #waiting do units = units + waiting[i].cost end
  state.refund(units)
  local moved, processes = {}, {}
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
    local process, number = string.match(waiter.id, '^(.*)/(.*)$')
    if not moved[process] then
      moved[process] = {}
      processes[#processes + 1] = process
    end
    table.insert(moved[process], number .. ':' .. string.format('%.0f', wait))
  end
  state.save()
  if #waiting > 0 then redis.call('PEXPIREAT', list, expires_at(waiting[#waiting].turn - now)) end
  for _, process in ipairs(processes) do
    local ear = channel .. process
    redis.call('PUBLISH', ear, table.concat(moved[process], ' '))
  end
end
