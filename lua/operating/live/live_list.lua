--[[
  Lists the limits that were set, of some names and of their keys. Changes nothing.

  KEYS[1]     state: see LiveKeys
  KEYS[2..3]  limits and temporary limits of names
  KEYS[4..]   for each name: limits, temporary limits and their ends, of its keys
  ARGV[1]     about how many limits of keys to return at most
  ARGV[2..]   the names

  Returns now; for how many keys at least a limit is in force; then limits, each as it was written: those of the names,
  which may be '', then those of keys. Temporary limits that have ended may be among them
]]
local timely = require 'redis.timely'

local most = tonumber(ARGV[1])
local now = timely.now_ms('')
local reply = { now, 0 }
for i = 2, 3 do
  for _, text in ipairs(redis.call('HMGET', KEYS[i], unpack(ARGV, 2))) do reply[#reply + 1] = text or '' end
end

local listed = 0
-- The server returns about as many fields as are asked for, and all of a small hash.
local function list(hash)
  local cursor = '0'
  repeat
    if listed >= most then return end
    local found = redis.call('HSCAN', hash, cursor, 'COUNT', string.format('%d', most - listed))
    cursor = found[1]
    for j = 2, #found[2], 2 do
      reply[#reply + 1] = found[2][j]
      listed = listed + 1
    end
  until cursor == '0'
end

for i = 4, #KEYS, 3 do
  local limits, temporary, ends = KEYS[i], KEYS[i + 1], KEYS[i + 2]
  local lasting = redis.call('HLEN', limits)
  local passing = redis.call('ZCOUNT', ends, '(' .. now, '+inf')
  reply[2] = reply[2] + math.max(lasting, passing)
  if passing > 0 then list(temporary) end
  if lasting > 0 then list(limits) end
end
return reply
