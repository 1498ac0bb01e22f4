--[[
  Tells the processes of those waiters of a line that fit now: after units came back, or a block ended. Costs one EXISTS where nobody waits. Reads line_at (the place of the
  line's three keys in KEYS; see line_open), marks (the key of line_mark), keys and blocks of limit_capacity, limits, channel (what the channel of every process begins with),
  now and clock. Changes nothing of the limits.
]]
if redis.call('EXISTS', KEYS[line_at]) == 1 then
  -- @include limit_capacity
  -- @include line_open
  -- @include line_walk
  -- @include line_save
  -- @include line_mark
  local line = line_open(KEYS[line_at], KEYS[line_at + 1], KEYS[line_at + 2], channel)
  local capacity = not line.err and limit_capacity(limits, keys, blocks, {}, now, clock)
  -- A line of another version, or a key that another program has changed, is reported to those who ask.
  if capacity and not capacity.err then
    line_walk(line, nil, capacity, { next = 0 })
    line_save(line)
    line_mark(line, marks, keys)
  end
end
