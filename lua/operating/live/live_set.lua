--[[
  Changes the live limit of a name, or of one of its keys: sets a permanent or a temporary limit, or clears both.

  KEYS[1..2]   state and log: see LiveKeys
  KEYS[3]      log of the name
  KEYS[4..6]   limits, temporary limits and their ends: of all names, or of the keys of this name
  KEYS[7], ARGV[1..2]  see timely.run_once
  ARGV[3]      epoch, if there is none yet
  ARGV[4]      channel
  ARGV[5]      field: the name, or the key
  ARGV[6]      change as the sender writes it; not read here
  ARGV[7]      kind: 'set' or 'clear'
  ARGV[8]      moment at which it ends, ms; -1 for never
  ARGV[9]      ms after which it ends; -1 for never

  Returns now and the change as it stands in the log
]]
local timely = require 'redis.timely'
local live_changes = require 'operating.live.live_changes'

local state, log, log_of_name = KEYS[1], KEYS[2], KEYS[3]
local limits, temporary, ends = KEYS[4], KEYS[5], KEYS[6]
local first_epoch = ARGV[3]
local channel = ARGV[4]
local field = ARGV[5]
local text = ARGV[6]
local kind = ARGV[7]
local ends_at = tonumber(ARGV[8])
local lasts = tonumber(ARGV[9])

return timely.run_once(function()
  local now = timely.now_ms('')
  if lasts >= 0 then ends_at = now + lasts end
  local known = live_changes.state(state)
  if known.epoch == '' then
    known.epoch = first_epoch
    redis.call('HSET', state, 'epoch', first_epoch)
  end
  local seq = redis.call('HINCRBY', state, 'seq', 1)
  local line = string.format('%s %.0f %.0f %.0f %s', known.epoch, seq, now, ends_at, text)

  live_changes.forget_ended(temporary, ends, now)
  redis.call('HDEL', temporary, field)
  redis.call('ZREM', ends, field)
  if kind == 'clear' then
    redis.call('HDEL', limits, field)
  elseif ends_at >= 0 then
    redis.call('HSET', temporary, field, line)
    redis.call('ZADD', ends, ends_at, field)
  else
    redis.call('HSET', limits, field, line)
  end

  redis.call('LPUSH', log, line)
  redis.call('LTRIM', log, 0, 999)
  redis.call('LPUSH', log_of_name, line)
  redis.call('LTRIM', log_of_name, 0, 99)
  redis.call('PUBLISH', channel, line)
  return { now, line }, true
end)
