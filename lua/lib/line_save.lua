--[[ Writes the changes of a line, and sets the lifetimes of its keys. A line without waiters leaves nothing behind. ]]
local LINE_LIFE_MS = 60000

local function line_save(line)
  if line.units == 0 then
    if line.stored then redis.call('DEL', line.meta, line.asks, line.key) end
    return
  end
  local text = string.format('%.0f', line.last)
  -- Lifetimes are renewed every few seconds only: the commands for it would cost as much as a walk.
  local stale = line.now < line.fresh or line.now - line.fresh >= LINE_LIFE_MS / 6
  if stale then line.fresh = line.now end
  redis.call('HSET', line.meta, 'v', LINE_VERSION, 'last', text, 'units', line.units, 'fresh', string.format('%.0f', line.fresh))
  if not stale then return end
  redis.call('PEXPIRE', line.key, LINE_LIFE_MS)
  redis.call('PEXPIRE', line.asks, LINE_LIFE_MS)
  redis.call('PEXPIRE', line.meta, LINE_LIFE_MS)
end
