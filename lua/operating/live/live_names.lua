--[[
  Lists all live names with their limits.

  KEYS[1..5]  state, names, defaults, limits and temporary limits of names: see LiveKeys
  ARGV        none

  Returns now, epoch, number of the newest change; then for each name, in the order of the alphabet: name, default, its
  limit or '', its temporary limit or ''
]]
local live_changes = require 'operating.live.live_changes'
local timely = require 'redis.timely'

local state, names, defaults, limits, temporary = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local known = live_changes.state(state)
local reply = { timely.now_ms(''), known.epoch, known.seq }
local all = redis.call('ZRANGE', names, 0, -1)
table.sort(all)
for _, name in ipairs(all) do
  reply[#reply + 1] = name
  reply[#reply + 1] = redis.call('HGET', defaults, name) or ''
  reply[#reply + 1] = redis.call('HGET', limits, name) or ''
  reply[#reply + 1] = redis.call('HGET', temporary, name) or ''
end
return reply
