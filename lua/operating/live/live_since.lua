--[[
  Lists the changes since the one that a process knows as the newest.

  KEYS[1..2]  state and log: see LiveKeys
  ARGV[1]     epoch that the process knows; '' if it has seen Redis before the first change
  ARGV[2]     number of the newest change that it knows

  Returns now, epoch, number of the newest change, 1 if all changes since follow and 0 if the process has to load
  everything anew; then the changes, oldest first
]]
local live_changes = require 'operating.live.live_changes'
local timely = require 'redis.timely'

local state, log = KEYS[1], KEYS[2]
local epoch = ARGV[1]
local seq = tonumber(ARGV[2])

local now = live_changes.state(state)
local missed = now.seq - seq
local reply = { timely.now_ms(''), now.epoch, now.seq, 0 }
if (epoch ~= now.epoch and epoch ~= '') or missed < 0 then return reply end
if missed == 0 then
  reply[4] = 1
  return reply
end
if missed > redis.call('LLEN', log) then return reply end
reply[4] = 1
local newest_first = redis.call('LRANGE', log, 0, missed - 1)
for i = missed, 1, -1 do reply[#reply + 1] = newest_first[i] end
return reply
