--[[ Called after a change of an opened semaphore: notifies the waiters that fit now, and writes the changes. `all`: notifies every member. ]]
-- @include semaphore_capacity
-- @include semaphore_save
-- @include line_open
-- @include line_walk
-- @include line_save
-- @include line_notify_all
local function semaphore_serve(s, keys, channel, all)
  local line = line_open(keys[4], keys[5], keys[6], channel)
  if line.err then return line end
  if line.units > 0 then
    if all then line_notify_all(line) end
    line_walk(line, nil, semaphore_capacity(s, ''), { next = 0 })
    line_save(line)
  end
  semaphore_save(s, line.units > 0)
  return line
end
