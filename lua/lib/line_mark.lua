--[[
  Records in `marks`, a ZSET of all lines under one policy, how many units wait in a line and until when its processes count as alive. So the decision of
  a new request needs no key of the line. The score is that moment in s x 2^22 + units. The name of a line is the keys of its limits' `states`.
]]
-- @include disable_fast_path
local LINE_MOST_MARKED = 4194303

local function line_mark(line, marks, states)
  local name = table.concat(states, ' ')
  if line.units == 0 then
    redis.call('ZREM', marks, name)
    return
  end
  local last = redis.call('ZRANGE', line.asks, '-1', '-1', 'WITHSCORES')[2]
  local until_s = math.ceil(((tonumber(last) or line.now) + LINE_GRACE_MS) / 1000)
  local score = string.format('%.0f', until_s * (LINE_MOST_MARKED + 1) + math.min(line.units, LINE_MOST_MARKED))
  -- While the mark exists, no decision enables the fast path again. Decisions under several limits have no fast path.
  if redis.call('ZADD', marks, score, name) == 1 and #states == 1 then disable_fast_path(name) end
  -- Removes lines whose processes died without leaving.
  redis.call('ZREMRANGEBYSCORE', marks, '-inf', string.format('%.0f', math.floor(line.now / 1000) * (LINE_MOST_MARKED + 1)))
  redis.call('PEXPIRE', marks, LINE_LIFE_MS)
end
