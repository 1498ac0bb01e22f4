--[[
  Reads the limits that some keys have of their own, under one name or several.

  KEYS[1]     state: see LiveKeys
  KEYS[2..]   for each name: limits, temporary limits and their ends, of the keys of this name
  ARGV        the keys: as many for each name, those of the first name first

  Returns now, epoch, number of the newest change; then for each key: its limit or '', its temporary limit or ''
]]
local live_changes = require 'operating.live.live_changes'
local timely = require 'redis.timely'

local width = 3 * #ARGV / (#KEYS - 1)

local known = live_changes.state(KEYS[1])
local now = timely.now_ms('')
local reply = { now, known.epoch, known.seq }
for i = 2, #KEYS, 3 do
  local limits, temporary, ends = KEYS[i], KEYS[i + 1], KEYS[i + 2]
  local first = (i - 2) / 3 * width + 1
  live_changes.forget_ended(temporary, ends, now)
  local standing = redis.call('HMGET', limits, unpack(ARGV, first, first + width - 1))
  local passing = redis.call('HMGET', temporary, unpack(ARGV, first, first + width - 1))
  for j = 1, width do
    reply[#reply + 1] = standing[j] or ''
    reply[#reply + 1] = passing[j] or ''
  end
end
return reply
