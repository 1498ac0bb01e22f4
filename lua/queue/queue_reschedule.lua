--[[
  Gives a delayed message another due moment; wakes idle processes if it is now due before all that wait.

  KEYS[1..11]  the queue: see queue_keys
  KEYS[12]     the requests of this sender: see run_once
  ARGV[1]      number of this request
  ARGV[2]      lowest unanswered number
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      id
  ARGV[5]      delay from now, ms

  Returns 1, or 0 if no such message is delayed; then 1 if processes were woken, else 0
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
local id = ARGV[4]
local delay = tonumber(ARGV[5])

return run_once(sent, number, floor, function()
  local clock = queue_clock(keys, given)
  local now = clock.now
  local text = redis.call('HGET', keys.messages, id)
  if not text then return { 0, 0 }, false end
  if queue_outlived(text, now) then return { 0, 0 }, false end
  local record = queue_record(text)
  local member = record.seq .. (redis.call('HGET', keys.tries, id) or QUEUE_UNTRIED) .. id
  local score = redis.call('ZSCORE', keys.delayed, member)
  if not score or tonumber(score) % QUEUE_BAND <= now then return { 0, 0 }, false end
  redis.call('ZADD', keys.delayed, queue_score(record.priority, now + delay), member)
  queue_save(keys, clock)
  local from = queue_score(record.priority, 0)
  local first = redis.call('ZRANGE', keys.delayed, from, '+inf', 'BYSCORE', 'LIMIT', '0', '1')
  if first[1] ~= member then return { 1, 0 }, true end
  queue_wake(keys)
  return { 1, 1 }, true
end)
