--[[
  Plans those anew who wait in the lines of `parties` (see rate_parties). word_for(waiter) gives nil for one who may stay, else the
  word for one who must go: -1 the rate has become too small for it, -2 the limiter is no more, -3 ask again. `forget`: what was
  granted counts no more. Returns the ms until all is as if never used.
]]
-- @include rate_state
-- @include waiting_now
-- @include tell_waiters
-- @include replan
local function rate_plan(rate, parties, now, clock, channel, forget, word_for)
  local latest = 0
  for _, party in ipairs(parties) do
    rate.log, rate.line = party.log, party.line
    -- Whatever it holds, it is no line of ours.
    local length = redis.pcall('LLEN', party.line)
    if type(length) == 'table' then redis.call('DEL', party.line) end
    local staying, leaving, units = {}, {}, 0
    for _, waiter in ipairs(waiting_now(party.line, now)) do
      waiter.word = word_for(waiter)
      if waiter.word then units = units + waiter.cost end
      local list = waiter.word and leaving or staying
      list[#list + 1] = waiter
    end
    if forget then redis.call('DEL', party.log) end
    if redis.call('EXISTS', party.log, party.line) > 0 then
      local state = rate_state(rate, now, clock)
      if state.err then
        redis.call('DEL', party.log)
        state = rate_state(rate, now, clock)
      end
      if #staying + #leaving > 0 then
        replan(state, party.line, staying, 1, units, now, channel, rate.expires_at)
      end
      local _, _, reset = state.measure(0)
      redis.call('PEXPIREAT', party.log, rate.expires_at(reset))
      if rate.fleeting and party.client and reset > 0 then rate.register(party.client, reset) end
      latest = math.max(latest, reset)
    end
    tell_waiters(leaving, 1, channel, function(waiter) return waiter.word end)
  end
  redis.call('PEXPIREAT', KEYS[2], rate.expires_at(math.max(latest, rate.limit.window)))
  return latest
end
