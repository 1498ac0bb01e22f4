--[[
  Puts dead letters back: ready at once, their attempts counted from 1, without their ttl. A letter whose id is in the queue again, or whose
  record has another version, stays where it is.

  KEYS[1..10]  the queue: see queue_keys
  KEYS[11]     the requests of this sender: see run_once
  ARGV[1]      number of this request
  ARGV[2]      lowest unanswered number
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      how many of the oldest to pass over, when no ids are given
  ARGV[5]      how many to bring back, when no ids are given
  ARGV[6…]     ids

  Returns how many came back, how many were looked at, and 1 if processes were woken, else 0
]]
-- @include run_once
-- @include queue_keys
-- @include queue_score
-- @include queue_record
-- @include queue_wake
local keys = queue_keys()
local sent = KEYS[11]
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local clock = ARGV[3]
local from = tonumber(ARGV[4])
local count = tonumber(ARGV[5])
local given = {}
for i = 6, #ARGV do
  given[#given + 1] = ARGV[i]
end

return run_once(sent, number, floor, function()
  local time = redis.call('TIME')
  local now = clock ~= '' and tonumber(clock) or time[1] * 1000 + math.floor(time[2] / 1000)
  local ids = #given > 0 and given or redis.call('ZRANGE', keys.dead, from, from + count - 1)
  local back = 0
  for i, id in ipairs(ids) do
    local grave = redis.call('HGET', keys.graves, id)
    local text = grave and cmsgpack.unpack(grave)[3]
    if grave and queue_readable(text) and redis.call('HEXISTS', keys.messages, id) == 0 then
      local seq = string.format('%s%06d%04d', time[1], tonumber(time[2]), i)
      local rest = string.sub(text, 38)
      local record = queue_record(text)
      redis.call('HSET', keys.messages, id, string.format('%s%s%d%015d', QUEUE_VERSION, seq, record.priority, 0) .. rest)
      redis.call('ZADD', keys.delayed, queue_score(record.priority, now), seq .. '0000000' .. id)
      redis.call('HDEL', keys.graves, id)
      redis.call('ZREM', keys.dead, id)
      back = back + 1
    end
  end
  if back > 0 then queue_wake(keys) end
  return { back, #ids, back > 0 and 1 or 0 }, back > 0
end)
