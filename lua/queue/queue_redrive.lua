--[[
  Puts dead letters back: ready at once, their attempts counted from 1, without their ttl. A letter whose id is in the queue again, or whose
  record has another version, stays where it is.

  KEYS[1..11]  the queue: see queue_keys
  KEYS[12]     the requests of this sender: see run_once
  ARGV[1]      number of this request
  ARGV[2]      lowest unanswered number
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      how many of the oldest to pass over, when no ids are given
  ARGV[5]      how many to bring back, when no ids are given
  ARGV[6…]     ids

  Returns how many came back, how many were looked at (fewer than given if they are large), and 1 if processes were woken, else 0
]]
-- @include run_once
-- @include queue_keys
-- @include queue_clock
-- @include queue_score
-- @include queue_record
-- @include queue_wake
local keys = queue_keys()
local sent = KEYS[12]
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local given = ARGV[3]
local from = tonumber(ARGV[4])
local count = tonumber(ARGV[5])
local named = {}
for i = 6, #ARGV do
  named[#named + 1] = ARGV[i]
end

return run_once(sent, number, floor, function()
  local ids = #named > 0 and named or redis.call('ZRANGE', keys.dead, from, from + count - 1)
  if #ids == 0 then return { 0, 0, 0 }, false end
  local clock = queue_clock(keys, given)
  local stamp = queue_stamp(clock)
  local graves, looked = queue_texts(keys.graves, ids)
  local back = 0
  for i = 1, looked do
    local id, grave = ids[i], graves[i]
    local text = grave and cmsgpack.unpack(grave)[3]
    if grave and queue_readable(text) and redis.call('HEXISTS', keys.messages, id) == 0 then
      local seq = string.format('%s%04d', stamp, i)
      local rest = string.sub(text, 38)
      local record = queue_record(text)
      redis.call('HSET', keys.messages, id, string.format('%s%s%d%015d', QUEUE_VERSION, seq, record.priority, 0) .. rest)
      redis.call('ZADD', keys.delayed, queue_score(record.priority, clock.now), seq .. QUEUE_UNTRIED .. id)
      redis.call('HDEL', keys.graves, id)
      redis.call('ZREM', keys.dead, id)
      back = back + 1
    end
  end
  if back > 0 then
    queue_save(keys, clock, false, true)
    queue_wake(keys)
  end
  return { back, looked, back > 0 and 1 or 0 }, back > 0
end)
