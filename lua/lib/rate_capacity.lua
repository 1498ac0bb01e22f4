--[[ What an opened rate can still grant, as line_walk and line_ask describe it. Returns { err } where its log is something else. ]]
-- @include log_open
-- @include log_spend
-- @include settle_sliding_window
-- @include log_ahead
local function rate_capacity(rate, now)
  local limit = rate.limit
  local log = log_open(rate.log, limit.window, now, true)
  if log.err then return log end
  local function expire_at() return rate.expires_at(limit.window) end
  local capacity = {
    now = now,
    most = limit.quota,
    late = math.max(50, math.floor(limit.window / 10)),
    check = rate.ends_at and rate.ends_at - now,
    ends = rate.ends_at ~= nil,
  }
  capacity.when = function(ahead, cost)
    local wait = log_ahead(limit, now, ahead, cost, rate.log, log)
    if wait > 0 and rate.ends_at and now + wait >= rate.ends_at then return -2 end
    return wait
  end
  capacity.grant = function(cost)
    log_spend(rate.log, log, now, cost, expire_at())
    capacity.granted = true
  end
  capacity.give_back = function(cost, _, at)
    settle_sliding_window(limit, now, cost, { charged_at = at }, rate.log, log, rate.expires_at)
    log = log_open(rate.log, limit.window, now, true)
  end
  -- ms until all is as if never used
  capacity.reset = function() return log.newest and log.newest - now + limit.window or 0 end
  return capacity
end
