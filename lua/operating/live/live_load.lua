--[[
  Reads the live limits of some names.

  KEYS[1..3]  state, limits and temporary limits of names: see LiveKeys
  KEYS[4..]   for each name: limits and temporary limits of its keys
  ARGV        the names

  Returns now, epoch, number of the newest change; then for each name: its limit or '', its temporary limit or '', how
  many of its keys have limits of their own
]]
local live_changes = require 'operating.live.live_changes'
local timely = require 'redis.timely'

local state, limits, temporary = KEYS[1], KEYS[2], KEYS[3]

local known = live_changes.state(state)
local reply = { timely.now_ms(''), known.epoch, known.seq }
local standing = redis.call('HMGET', limits, unpack(ARGV))
local passing = redis.call('HMGET', temporary, unpack(ARGV))
for i = 1, #ARGV do
  reply[#reply + 1] = standing[i] or ''
  reply[#reply + 1] = passing[i] or ''
  reply[#reply + 1] = redis.call('HLEN', KEYS[2 * i + 2]) + redis.call('HLEN', KEYS[2 * i + 3])
end
return reply
