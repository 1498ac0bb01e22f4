--[[
  Records in `marks`, a ZSET of all lines under one policy, how many units wait in a line and until when its processes count as alive. So the decision of
  a new request needs no key of the line. The name of a line is the keys of its limits' `states`; its score is that moment in ms. The units are the
  negative score of the member "name units".
]]
local function line_mark(line, marks, states)
  local name = table.concat(states, ' ')
  if line.units == 0 then
    redis.call('ZREM', marks, name, name .. ' units')
    return
  end
  local last = redis.call('ZRANGE', line.asks, '-1', '-1', 'WITHSCORES')[2]
  local ends_at = string.format('%.0f', (tonumber(last) or line.now) + LINE_GRACE_MS)
  redis.call('ZADD', marks, ends_at, name, string.format('%.0f', -line.units), name .. ' units')
  -- Lines whose processes died without leaving; a few at a time, so that no call is long.
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', marks, '0', line.now, 'LIMIT', '0', '16')) do
    redis.call('ZREM', marks, dead, dead .. ' units')
  end
  redis.call('PEXPIRE', marks, LINE_LIFE_MS)
end
