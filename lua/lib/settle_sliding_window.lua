--[[
  Removes at most `units` of a decision's own units from the log of a sliding window: from the entry of the moment when the decision was charged. Rewrites
  the running totals on the shorter side of that entry. If both sides have more than 1000 entries, that would take too long: then removes as many of
  the oldest units instead, which is safe, but some units become free later than they could. `log` comes from log_open.
]]
-- @include log_pack
-- @include log_unpack
-- @include log_search
-- @include log_refund_oldest
local function settle_sliding_window(limit, now, units, receipt, key, log, expires_at)
  local charged_at = receipt.charged_at
  if not log.newest or now - charged_at >= limit.window then return end
  local length = redis.call('LLEN', key)
  local index, at, total = log_search(key, 1, length, function(at) return at >= charged_at end)
  if at ~= charged_at then return end
  local _, before = log_unpack(redis.call('LINDEX', key, index - 1))
  local earlier, later = index - 1, length - 1 - index
  local counted = total - before
  local back = math.min(units, counted)
  local whole = back == counted
  if math.min(earlier, later) > 1000 then
    log_refund_oldest(key, log, back, expires_at(math.max(0, log.newest - now) + limit.window))
    return
  end
  if whole and length == 2 then
    redis.call('DEL', key)
    return
  end
  local shift, first, entries = -back, index, nil
  if later <= earlier then
    entries = redis.call('RPOP', key, later + 1)
    -- The entries come newest first.
    for i = 1, math.floor(#entries / 2) do
      entries[i], entries[#entries + 1 - i] = entries[#entries + 1 - i], entries[i]
    end
  else
    entries, shift, first = redis.call('LPOP', key, index + 1), back, 0
  end
  local written = {}
  for i = 1, #entries do
    local entry_at, entry_total, ttl = log_unpack(entries[i])
    local place = first + i - 1
    if place ~= index then
      written[#written + 1] = log_pack(entry_at, entry_total + shift, ttl)
    elseif not whole then
      written[#written + 1] = log_pack(entry_at, shift < 0 and entry_total + shift or entry_total, ttl)
    end
  end
  if shift < 0 then
    if #written > 0 then redis.call('RPUSH', key, unpack(written)) end
  else
    for i = 1, math.floor(#written / 2) do
      written[i], written[#written + 1 - i] = written[#written + 1 - i], written[i]
    end
    redis.call('LPUSH', key, unpack(written))
  end
end
