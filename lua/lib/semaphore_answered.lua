--[[
  semaphore_is_stale returns whether the record of a member needs a new lifetime. semaphore_answered stores the answer to ask `number` in the record of a
  member, as line_ask does, with `count`, the number of its waiters. The record then lives for at least three quarters of `kept` ms: setting the lifetime
  each time would cost as much as a lease. `stamp` is the stamp of the answer as a number, `member_fields` the fields of the record that semaphore_ask has read.
  Returns the answer.
]]
local function semaphore_is_stale(member_fields, stamp, kept)
  return math.abs(stamp - (tonumber(member_fields[4]) or 0)) > kept * 250
end

local function semaphore_answered(record, member_fields, number, stamp, count, kept, reply)
  local format = string.format
  local stale = semaphore_is_stale(member_fields, stamp, kept)
  local stamp_text = format('%.0f', stamp)
  redis.call('HSET', record, 'n', number, 'stamp', stamp_text, 'c', count, 'reply', reply, 'fresh', stale and stamp_text or member_fields[4])
  if stale then redis.call('PEXPIRE', record, kept) end
  return reply
end
