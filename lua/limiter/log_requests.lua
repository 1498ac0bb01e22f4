-- Decides requests over logs that consume_log cannot decide by the quick way.
local logs = require 'limiter.logs'
local sliding_window = require 'limiter.algorithms.sliding_window'
local log_requests = {}

--- Decides one request, and spends at once. `units` that wait in line come before it. A blocked or waiting key spends
--- nothing: a limit that would allow the request reports its present state. Returns retry, remaining, reset.
function log_requests.decide(key, quota, window, now, cost, spends, blocked_for, units)
  local log = logs.open(key, window, now, spends)
  local wait = 0
  if units > 0 and cost > 0 then wait = sliding_window.ahead(quota, window, now, units, cost, key, log) end
  local retry, remaining, reset = sliding_window.measure(quota, window, now, cost, key, log)
  local is_held = blocked_for > 0 or wait > 0
  if is_held and retry == 0 then retry, remaining, reset = sliding_window.measure(quota, window, now, 0, key, log) end
  if wait > retry and retry >= 0 then retry = wait end
  if spends and retry == 0 and cost > 0 and not is_held and logs.spend(key, log, now, window, cost) then
    logs.save(key, log, window)
  end
  return retry, remaining, reset
end

return log_requests
