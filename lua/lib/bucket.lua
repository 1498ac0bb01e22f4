--[[
  token-bucket and leaky-bucket: at = when level was true (nil: never used), level = units spent and not yet regained,
  x window, a whole number for every rate; kept_for = the quota by which its key was given its lifetime: under a lower one what is
  owed takes longer, so that even a refusal renews it, once. A leaky bucket's admitted requests wait until what they found has drained.
  Returns retry (0 allowed, -1 never), remaining, reset, delay, then the next at, level and kept_for.
]]
-- @include bucket_level
-- @include floor_div
-- @include ceil_div
local function bucket(limit, now, cost, at, level, kept_for)
  local most = limit.quota == 0 and 0 or limit.burst
  -- Nothing drains at quota 0 and nothing is admitted: what was spent before does not matter, until the quota changes.
  local found = limit.quota == 0 and 0 or bucket_level(limit, now, at, level)
  local after = found
  local retry, delay = 0, 0
  if at and at > now then at = now end
  if cost > 0 then
    -- Nothing compared here exceeds burst x window, which the policy keeps below 2^53; a sum of both sides would.
    local over = found - (most - cost) * limit.window
    if cost > most then
      retry = -1
    elseif over > 0 then
      retry = ceil_div(over, limit.quota)
    else
      after = found + cost * limit.window
      at, level, kept_for = now, after, limit.quota
      if limit.algorithm == 'leaky-bucket' then delay = ceil_div(found, limit.quota) end
    end
  end
  if limit.quota > 0 and limit.quota < kept_for then kept_for = limit.quota end
  local left = most * limit.window - after
  local remaining = left > 0 and floor_div(left, limit.window) or 0
  return retry, remaining, after > 0 and ceil_div(after, limit.quota) or 0, delay, at, level, kept_for
end
