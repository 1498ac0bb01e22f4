--[[
  Keeps the answer to the ask of that number in the record of a member, as line_ask does, with `count` of its waiters. The record lives for three
  quarters of `kept` ms at least: to set its lifetime each time would cost as much as a lease. `asked` is what semaphore_ask has read of it.
  Returns the answer.
]]
local function semaphore_answered(record, asked, number, count, kept, reply)
  local format, stamp, fresh = string.format, reply[2], tonumber(asked[4]) or 0
  local stale = math.abs(stamp - fresh) > kept * 250
  if stale then fresh = stamp end
  redis.call(
    'HSET', record, 'n', format('%.0f', number), 'stamp', format('%.0f', stamp), 'c', format('%d', count), 'reply', cmsgpack.pack(reply),
    'fresh', format('%.0f', fresh)
  )
  if stale then redis.call('PEXPIRE', record, kept) end
  return reply
end
