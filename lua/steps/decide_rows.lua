--[[
  Decides a batch under one limit whose state is a row: what consume does in general, without the detours that several limits and
  logs need. Most traffic comes this way, and an instruction here is paid for by every request: hence no function that is not
  needed, and no array that can be spared. A script that ends in it names its `algorithm`, says whether its limit is `shaped` (delays
  what it admits), and gives the step that measures. Uses functions_of.

  KEYS, ARGV  as of steps/open_one
  Returns     what consume returns
]]
-- @include now_ms
-- @include steps/open_one
local count = #KEYS

-- MGET answers nil for a key of another type as for none at all.
local values = call('MGET', unpack(KEYS, 3))
local missing
for i = 3, count do
  if not values[i - 2] then
    missing = missing or {}
    missing[#missing + 1] = KEYS[i]
  end
end
local strange = missing and call('EXISTS', unpack(missing)) > 0

-- What is to be written: keys and rows in turn, the moments at which the keys may go, and the places of the keys, of which some
-- stand in the batch twice.
local writes, expire_at, written, place = {}, {}, 0, {}
for i = 3, count do
  local key = KEYS[i]
  local slot = place[key]
  local value = slot and writes[2 * slot] or values[i - 2]
  local failure, at
  local x, y = 0, 0
  -- @include steps/read_row
  if failure then
    size = size + 1
    out[size] = failure
  else
    local cost = one_cost or tonumber(ARGV[4 + i])
    local blocked_until = some_kept and tonumber(call('ZSCORE', KEYS[1], key) or 0) or 0
    local blocked = blocked_until > now
    local line_name = key
    -- @include steps/read_ahead
    local wait = 0
    if ahead > 0 and cost > 0 then
      wait = functions_of(algorithm).ahead({ quota = quota, window = window, burst = burst }, now, ahead, cost, at, x, y)
    end
    local retry, remaining, reset, delay, next_at, next_x, next_y
    repeat
      -- @here
      -- A block, or a waiting line, spends nothing: what would be allowed is told as it stands.
      local again = (blocked or wait > 0) and retry == 0 and cost > 0
      if again then cost = 0 end
    until not again
    if wait > retry and retry >= 0 then retry = wait end
    if spending then
      -- @include steps/spend_row
    end
    -- @include steps/tell
  end
end

-- @include steps/write_rows
if quota > 9007199254740928 or window > 9007199254740928 then
  -- @include steps/spell
end
return out
