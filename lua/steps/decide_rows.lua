--[[
  Decides a batch under one limit whose state is a row. It does the same as consume, without the additional work for several limits and
  logs. Most traffic takes this way, and every request pays for each instruction, so this code avoids functions and
  arrays. The code of an algorithm replaces @here. Reads what steps/open_one gives, `algorithm`, and whether its limit is
  `shaped` (delays what it admits); uses functions_of. Returns what consume returns.
]]
-- @include now_ms
-- @include steps/open_answer
local keys, shared = KEYS, 2
local count, waiting = #keys, keys[2]
local one_cost = #ARGV <= costs_at and tonumber(ARGV[costs_at] or 1)

-- MGET answers nil for a key of another type as for none at all.
local values = call('MGET', unpack(keys, 3))
local missing
for i = 3, count do
  if not values[i - 2] then
    missing = missing or {}
    missing[#missing + 1] = keys[i]
  end
end
local strange = missing and call('EXISTS', unpack(missing)) > 0

-- The pending writes stand in `values`; steps/spend_row notes their places, because some keys are in the batch twice.
local expire_ats, place, together = {}, {}, count > 3
for i = 3, count do
  local key = keys[i]
  local slot = place[key] or i - 2
  local value = values[slot]
  local failure, at
  local x, y, expires, asked_in = 0, 0, 0, 0
  -- @include steps/read_row
  if failure then
    size = size + 1
    out[size] = failure
  else
    local cost = one_cost or tonumber(ARGV[costs_at - 3 + i])
    local blocked_until = some_kept and tonumber(call('ZSCORE', keys[1], key) or 0) or 0
    local blocked = blocked_until > now
    local line_name = key
    -- @include steps/read_ahead
    local wait = 0
    if ahead > 0 and cost > 0 then
      wait = functions_of(algorithm).ahead({ quota = quota, window = window, burst = burst }, now, ahead, cost, at, x, y)
    end
    local retry, remaining, reset, delay, next_at, next_x, next_y
    repeat
      -- @here measure
      -- A blocked or waiting key spends nothing: a limit that would allow the request reports its present state.
      local again = (blocked or wait > 0) and retry == 0 and cost > 0
      if again then cost = 0 end
    until not again
    if wait > retry and retry >= 0 then retry = wait end
    if spending then
      -- @include steps/spend_row
    end
    -- @include steps/add_verdict
  end
end

-- @include steps/write_rows
if quota > 9007199254740928 or window > 9007199254740928 then
  -- @include steps/large_numbers_as_text
end
return out
