--[[ Returns the same object as row_state, for a log. Changes are written at once, and a refund gives back the oldest units. `read_only`: see log_open. ]]
-- @include log_open
-- @include log_ahead
-- @include log_spend
-- @include log_insert
-- @include sliding_window
-- @include log_refund_oldest
-- @include settle_sliding_window
local function log_state(limit, key, now, expires_at, _, read_only)
  local log = log_open(key, limit.window, now, not read_only)
  local function reset() return log.newest and log.newest - now + limit.window or 0 end
  return {
    err = log.err,
    reset = reset,
    ahead = function(own, ahead, cost) return log_ahead(own, now, ahead, cost, key, log) end,
    grant = function(own, cost)
      log_spend(key, log, now, limit.window, cost, expires_at)
      return math.max(0, own.quota - (log.total - log.gone)), reset()
    end,
    look = function(cost) return sliding_window(limit, now, cost, key, log) end,
    room = function(ttl) return math.max(0, limit.quota - (log.total - log.gone)), ttl end,
    buy = function(units, ttl)
      log_insert(key, log, now + ttl, units, ttl, expires_at(math.max(reset(), limit.window + ttl)))
    end,
    charge = function(cost) log_spend(key, log, now, limit.window, cost, expires_at) end,
    refund = function(_, cost)
      log_refund_oldest(key, log, cost, expires_at(reset()))
      log = log_open(key, limit.window, now, true)
    end,
    settle = function(units, receipt)
      settle_sliding_window(limit, now, units, receipt, key, log, expires_at)
      log = log_open(key, limit.window, now, not read_only)
    end,
    save = function() end,
  }
end
