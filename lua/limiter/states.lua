-- The state of a key under one limit, whatever its algorithm.
local states = {}

--- Opens it: returns what rows.open describes. `err` instead, the text of an error: the key holds something else.
function states.open(limit, key, now, read_only)
  if limit.algorithm == 'sliding_window' then
    local log_states = require 'limiter.log_states'
    return log_states.open(limit, key, now, read_only)
  end
  local rows = require 'limiter.rows'
  return rows.open(limit, key, now, read_only)
end

return states
