--[[
  Opens the state of a rate, that of all processes or that of one client, and brings it up to date: what belongs to another life
  or was to be forgotten is dropped, turns are planned anew where the rate was changed, bookings whose turn has come become
  entries of the log. Returns the state, or { err }.

  KEYS from `first` on: log (LIST), queue (LIST of bookings), plan (HASH), two memories of requests (HASH). Fields of the plan:
    birth, version   of the rate that the state was made under     ticket    the last number given out
    absorbed         the last ticket that became a grant           replan    turns from this ticket on are to be planned anew
    seen             ms, when the plan was last written
]]
-- @include booking_search
-- @include rate_refresh
-- @include rate_sweep
-- @include rate_absorb
local function rate_open(config, now, scope)
  local first = config.mode == 'overall' and 3 or 8
  local state = {
    first = first,
    scope = config.mode == 'overall' and '' or scope,
    log_key = KEYS[first],
    queue_key = KEYS[first + 1],
    plan_key = KEYS[first + 2],
    news = {},
  }
  local plan = redis.pcall('HMGET', state.plan_key, 'birth', 'version', 'ticket', 'absorbed', 'replan', 'seen')
  if plan.err then return plan end
  local kind = redis.call('TYPE', state.queue_key).ok
  if kind ~= 'none' and kind ~= 'list' then return { err = 'WRONGTYPE the queue of a rate is a ' .. kind } end
  if plan[1] and plan[1] ~= config.birth then
    redis.call('UNLINK', unpack(KEYS, first, first + 4))
    plan = {}
    kind = 'none'
  end
  state.known = plan[1] and true
  state.ticket = tonumber(plan[3]) or 0
  state.absorbed = tonumber(plan[4])
  state.replan = tonumber(plan[5])
  local version, seen = tonumber(plan[2]), tonumber(plan[6])
  if version and version < (config.forgotten or 0) then
    redis.call('UNLINK', state.log_key)
    if kind == 'list' then
      local length = redis.call('LLEN', state.queue_key)
      local kept = booking_search(state.queue_key, 0, length, function(turn) return turn > config.set_at end)
      if kept > 0 then
        local _, _, ticket = booking_unpack(redis.call('LINDEX', state.queue_key, kept - 1))
        state.absorbed = ticket
        redis.call('LTRIM', state.queue_key, kept, '-1')
      end
    end
  end
  if version ~= config.version then state.changed = state.known end
  local failure = rate_refresh(state, config, now)
  if failure then return { err = failure } end
  if state.length == 0 then
    state.replan = nil
    return state
  end
  -- A clock that ran back has left turns in a future that is further away than they were promised.
  if version ~= config.version or not seen or seen > now then state.replan = 0 end
  if state.replan then rate_sweep(state, config, now) end
  local count, more = rate_absorb(state, now)
  state.more_due = more
  if count > 0 or #state.news > 0 then rate_refresh(state, config, now) end
  return state
end
