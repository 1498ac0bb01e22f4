-- The state of a key under one limit, whatever its algorithm.
local rows = require 'limiter.rows'
local states = {}

--- Opens it: returns what rows.open describes.
function states.open(limit, key, now, read_only)
  if limit.algorithm ~= 'sliding_window' then return rows.open(limit, key, now, read_only) end
  local log_states = require 'limiter.log_states'
  return log_states.open(limit, key, now, read_only)
end

return states
