--[[
  Brings dead letters back: ready at once, their attempts counted from 1, without their ttl. One whose id is in the queue again stays
  where it is.

  KEYS[1..9]  the queue: see queue_keys
  KEYS[10]    what this sender has sent: see once
  ARGV[1]     number of this request
  ARGV[2]     lowest number that is not answered
  ARGV[3]     now, ms; '' for the server's clock
  ARGV[4]     how many of the oldest to pass over, when no ids are given
  ARGV[5]     how many to bring back, when no ids are given
  ARGV[6…]    ids

  Returns how many came back, and how many were looked at
]]
-- @include once
-- @include queue_keys
-- @include queue_score
-- @include queue_record
-- @include queue_wake_one
local keys = queue_keys()
local sent = KEYS[10]
local number = tonumber(ARGV[1])
local floor = tonumber(ARGV[2])
local clock = ARGV[3]
local from = tonumber(ARGV[4])
local count = tonumber(ARGV[5])
local given = {}
for i = 6, #ARGV do
  given[#given + 1] = ARGV[i]
end

return once(sent, number, floor, function()
  local time = redis.call('TIME')
  local now = clock ~= '' and tonumber(clock) or time[1] * 1000 + math.floor(time[2] / 1000)
  local ids = #given > 0 and given or redis.call('ZRANGE', keys.dead, from, from + count - 1)
  local back = 0
  for i, id in ipairs(ids) do
    local grave = redis.call('HGET', keys.graves, id)
    if grave and redis.call('HEXISTS', keys.messages, id) == 0 then
      local text = cmsgpack.unpack(grave)[3]
      local seq = string.format('%s%06d%04d', time[1], tonumber(time[2]), i)
      local rest = string.sub(text, 37)
      local record = queue_record(text)
      redis.call('HSET', keys.messages, id, string.format('%s%d%015d', seq, record.priority, 0) .. rest)
      redis.call('ZADD', keys.delayed, queue_score(record.priority, now), seq .. '0000000' .. id)
      redis.call('HDEL', keys.graves, id)
      redis.call('ZREM', keys.dead, id)
      back = back + 1
    end
  end
  if back > 0 then queue_wake_one(keys) end
  return { back, #ids }, back > 0
end)
