--[[
  Decides a batch under one sliding-window limit: what consume does, with a short way for what is commonest: a log from which
  nothing expires just now, and a request that fits.

  KEYS, ARGV  as of steps/open_one
  Returns     what consume returns
]]
-- @include now_ms
-- @include log_unpack
-- @include log_save
-- @include rarely
-- @include steps/open_one
local limit, shaped = { quota = quota, window = window }, false

-- A key that stands in the batch twice is read once and written once.
local logs, changed = {}, {}
for i = 2, #KEYS do
  local key = KEYS[i]
  local log = logs[key]
  if not log then
    -- @include steps/open_log
  end
  if log.err then
    size = size + 1
    out[size] = log.err
  else
    local cost = one_cost or tonumber(ARGV[5 + i])
    local blocked_until = some_blocked and tonumber(call('ZSCORE', KEYS[1], key) or 0) or 0
    local blocked = blocked_until > now
    local retry, remaining, reset, delay = 0, quota - (log.total - log.gone) - cost, window, 0
    if remaining < 0 or cost == 0 or blocked then
      local measure = rarely().measure
      retry, remaining, reset = measure(limit, now, cost, key, log)
      -- A block spends nothing: what would be allowed is told as it stands.
      if blocked and retry == 0 then retry, remaining, reset = measure(limit, now, 0, key, log) end
    elseif spending then
      -- @include steps/spend_log
    end
    -- @include steps/tell
  end
end

for i = 1, #changed do
  local key = changed[i]
  log_save(key, logs[key], logs[key].expire_at)
end
if quota > 9007199254740928 or window > 9007199254740928 then
  -- @include steps/spell
end
return out
