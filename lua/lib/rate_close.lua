--[[
  Writes what is to be remembered of a state, gives its keys their lifetime, and tells the new turns to those who wait. A rate that
  is kept alive by use lives on from now if it was `used`.
]]
-- @include rate_padding
-- @include rate_ticket
local function rate_close(state, config, clock, us, channel, used)
  local now = math.floor(us / 1000)
  local padding = rate_padding(clock, config.interval)
  local last = math.max(state.log.newest or 0, state.tail_turn or 0)
  local lasting = last > 0 and last - now + config.interval + padding
  local revision = #state.news > 0 and rate_ticket(state, now)
  if state.spent and not state.known then state.changed = true end
  if state.changed then
    redis.call(
      'HSET', state.plan_key, 'birth', config.birth, 'version', config.version, 'ticket', state.ticket,
      'absorbed', state.absorbed or '', 'replan', state.replan or '', 'seen', now
    )
  end
  if (state.changed or state.spent) and lasting then
    for i = state.first, state.first + 2 do redis.call('PEXPIRE', KEYS[i], lasting) end
    if state.scope ~= '' then
      redis.call('ZADD', KEYS[2], now + lasting, state.scope)
      redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
      redis.call('PEXPIRE', KEYS[2], math.max(lasting, redis.call('PTTL', KEYS[2])))
    end
  elseif state.changed then
    redis.call('UNLINK', state.plan_key)
  end
  if used and config.keep_alive then
    local idle_until = math.max(now + config.keep_alive, state.tail_turn or 0)
    redis.call('HSET', KEYS[1], 'idleUntil', idle_until)
    local ends_at = math.min(idle_until, config.ends_at or idle_until)
    redis.call('PEXPIRE', KEYS[1], ends_at - now + (clock ~= '' and 5000 or 0))
  end
  if revision then
    local text = string.format('%s\n%.0f %.0f %s', state.scope, revision, us, table.concat(state.news, ' '))
    -- Not being allowed to publish only makes those who wait learn it later.
    redis.pcall('PUBLISH', channel, text)
  end
end
