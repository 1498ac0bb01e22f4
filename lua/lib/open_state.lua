--[[ Opens the state of a key under one limit, whatever its algorithm: returns what row_state returns. `read_only`: see row_state and log_open. ]]
-- @include functions_of
-- @include row_state
local function open_state(limit, key, now, expires_at, read_only)
  local functions = functions_of(limit.algorithm)
  return (functions.open_state or row_state)(limit, key, now, expires_at, functions, read_only)
end
