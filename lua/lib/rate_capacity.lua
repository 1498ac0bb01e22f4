--[[ Returns the capacity of an opened rate (see line_walk and line_ask), or { err } if its log has a foreign value. ]]
-- @include log_state
-- @include log_move
local function rate_capacity(rate, now)
  local limit = rate.limit
  local state = log_state(limit, rate.log, now, rate.expires_at)
  if state.err then return state end
  local capacity = {
    now = now,
    most = limit.quota,
    late = math.max(50, math.floor(limit.window / 10)),
    check = rate.ends_at and rate.ends_at - now,
    has_end = rate.ends_at ~= nil,
    -- ms until the state no longer matters
    reset = function() return state.reset() end,
  }
  capacity.when = function(ahead, cost)
    local wait = state.ahead(limit, ahead, cost)
    if wait > 0 and rate.ends_at and now + wait >= rate.ends_at then return -2 end
    return wait
  end
  capacity.grant = function(cost)
    state.charge(cost)
    capacity.granted = true
  end
  -- A change of the shared rate: calls were answered. `grants` lists them: the moment of the grant in ms and its number of units.
  -- From now on they count for only `interval` ms.
  capacity.change = function(_, grants, interval)
    local moves = {}
    for at, units in string.gmatch(grants, '(%d+) (%d+)') do
      moves[tonumber(at)] = (moves[tonumber(at)] or 0) + tonumber(units)
    end
    log_move(rate.log, log_open(rate.log, limit.window, now, true), limit.window, now, moves, now - limit.window + tonumber(interval))
    state = log_state(limit, rate.log, now, rate.expires_at)
    return 1
  end
  capacity.give_back = function(cost, _, granted_at) state.settle(cost, { charged_at = granted_at }) end
  return capacity
end
