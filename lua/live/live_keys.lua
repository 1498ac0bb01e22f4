--[[
  Reads the limits that some keys of one name have of their own.

  KEYS[1]     state: see LiveKeys
  KEYS[2..4]  limits, temporary limits and their ends, of the keys of this name
  ARGV        the keys

  Returns now, epoch, number of the newest change; then for each key: its limit or '', its temporary limit or ''
]]
-- @include now_ms
-- @include live_state
-- @include live_forget_ended
local state, limits, temporary, ends = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local known = live_state(state)
local now = now_ms('')
live_forget_ended(temporary, ends, now)
local reply = { now, known.epoch, known.seq }
local standing = redis.call('HMGET', limits, unpack(ARGV))
local passing = redis.call('HMGET', temporary, unpack(ARGV))
for i = 1, #ARGV do
  reply[#reply + 1] = standing[i] or ''
  reply[#reply + 1] = passing[i] or ''
end
return reply
