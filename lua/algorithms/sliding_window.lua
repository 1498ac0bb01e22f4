--[[
  sliding-window: an exact log of spent units and their times. Its state is not a row but a list: see log_open.
  lua/lib/functions_of.lua describes the sections.
]]

-- @section traits
has_log = true

-- @section consume
-- The consume script, with fast paths for the most common cases: a log without newly expired entries, and a request that fits.
local algorithm, shaped, costs_at = 'sliding-window', false, 4
-- @include steps/open_one
-- @include steps/spend_lone_log
-- @include steps/functions_of_one with algorithms/sliding_window.functions
-- @include now_ms
-- @include log_unpack
-- @include log_save
-- @include expiry
-- @include steps/open_answer
local expires_at = expiry(clock, now)
local waiting, limit = KEYS[2], { quota = quota, window = window }
local one_cost = #ARGV <= costs_at and tonumber(ARGV[costs_at] or 1)

-- A key that is in the batch twice is read once and written once.
local logs, changed = {}, {}
for i = 3, #KEYS do
  local key = KEYS[i]
  local log = logs[key]
  if not log then
    -- @include steps/open_log
  end
  if log.err then
    size = size + 1
    out[size] = log.err
  else
    local cost = one_cost or tonumber(ARGV[costs_at - 3 + i])
    local blocked_until = some_kept and tonumber(call('ZSCORE', KEYS[1], key) or 0) or 0
    local blocked = blocked_until > now
    local line_name = key
    -- @include steps/read_ahead
    local wait = ahead > 0 and cost > 0 and functions_of(algorithm).ahead(limit, now, ahead, cost, key, log) or 0
    local retry, remaining, reset, delay = 0, quota - (log.total - log.gone) - cost, window, 0
    if remaining < 0 or cost == 0 or blocked or wait > 0 then
      local measure = functions_of(algorithm).measure
      retry, remaining, reset = measure(limit, now, cost, key, log)
      -- A blocked or waiting key spends nothing: a limit that would allow the request reports its present state.
      if (blocked or wait > 0) and retry == 0 then retry, remaining, reset = measure(limit, now, 0, key, log) end
      if wait > retry and retry >= 0 then retry = wait end
    elseif spending then
      -- @include steps/spend_log
    end
    -- @include steps/add_verdict
  end
end

for i = 1, #changed do
  local key = changed[i]
  log_save(key, logs[key], window, expires_at, KEYS[4] and clock == '' and second)
end
if quota > 9007199254740928 or window > 9007199254740928 then
  -- @include steps/large_numbers_as_text
end
return out

-- @section functions
-- @include log_open
-- @include log_insert
-- @include log_rebase
-- @include log_ahead
-- @include log_state
-- @include sliding_window
functions = {
  open_state = log_state,
  open_log = log_open,
  insert = log_insert,
  rebase = log_rebase,
  measure = sliding_window,
  ahead = log_ahead,
}
