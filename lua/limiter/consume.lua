--[[
  Decides a batch of requests under a policy of several limits, in order, each at the same instant: spends from all
  limits of a request or from none. What the batch shares is sent once. (One limit alone is decided by the script of its
  algorithm.)

  KEYS       the block list of each limit (ZSET member → blocked until, ms); the units that wait in the lines of the
             policy (see line_note_units); then of request 1 the key of each limit, of request 2 …
  ARGV[1]    until when this may be carried out, and the clock: see moment
  ARGV[2]    number of limits, then for each: algorithm, quota, window in ms, burst
  ARGV[…]    the cost of each request, or one for all

  Returns now, and nothing else if it came too late; then, for each request and each of its limits, numbers in a row.
  Allowed: remaining >= 0, reset in ms, and for a leaky bucket delay in ms. Denied: -1 - remaining, reset in ms, retry
  in ms; -1 ms means never, -2 - retry that the key is blocked. A request that could not be decided gives one text
  instead, the error.
]]
-- @inline decision.moment
-- @inline decision.answer
local expires_at = expiry(clock, now)
local width, count = tonumber(ARGV[2]), #KEYS
-- Each limit, and its result for the present request: one table for all, created at once, costs less than arrays that
-- grow.
local limits, rows = {}, 0
for j = 1, width do
  local algorithm = ARGV[4 * j - 1]
  local has_log, has_burst, shaped = false, false, false
  -- @choose traits
  if algorithm == 'calendar-window' then
    local window, burst = tonumber(ARGV[4 * j + 1]), tonumber(ARGV[4 * j + 2])
    check_calendar_window(now, burst, window)
  end
  if not has_log then rows = rows + 1 end
  limits[j] = {
    algorithm = algorithm,
    shaped = shaped,
    quota = tonumber(ARGV[4 * j]),
    window = tonumber(ARGV[4 * j + 1]),
    burst = tonumber(ARGV[4 * j + 2]),
    row = not has_log and rows,
    slot = 0,
    at = 0,
    x = 0,
    y = 0,
    expires = 0,
    asked_in = 0,
    next_at = 0,
    next_x = 0,
    next_y = 0,
    retry = 0,
    remaining = 0,
    reset = 0,
    delay = 0,
    blocked_until = 0,
  }
end
local costs_at = 4 * width + 3
local one_cost = #ARGV == costs_at and tonumber(ARGV[costs_at])
local waiting = KEYS[width + 1]
local blocks_or_waiters = call('EXISTS', unpack(KEYS, 1, width + 1)) > 0

-- MGET answers nil for a key of another type as for none at all.
local values, may_be_foreign = {}, false
local keys, shared = KEYS, width + 1
if rows > 0 then
  if rows < width then
    keys = { unpack(KEYS, 1, shared) }
    for i = width + 2, count do
      if limits[(i - 2) % width + 1].row then keys[#keys + 1] = KEYS[i] end
    end
  end
  values = call('MGET', unpack(keys, shared + 1))
  local missing
  for i = 1, #values do
    if not values[i] then
      missing = missing or {}
      missing[#missing + 1] = keys[shared + i]
    end
  end
  may_be_foreign = missing and call('EXISTS', unpack(missing)) > 0
end

-- The pending writes stand in `values`; spend_row notes their places, because some keys are in the batch twice. The
-- logs, and the keys of those that have changed.
local expire_ats, place, together = {}, {}, count > 2 * width + 1
local logs, changed = {}, {}
for first = width + 1, count - 1, width do
  local request = (first - width - 1) / width
  local asked = one_cost or tonumber(ARGV[costs_at + request])
  local cost, allowed, failure, again = asked, true, nil, false
  local line_name = blocks_or_waiters and table.concat(KEYS, ' ', first + 1, first + width)
  -- @inline decision.read_ahead
  repeat
    for j = 1, width do
      local limit = limits[j]
      -- If nothing is spent, a limit that would have allowed the request reports its present state.
      if not again or limit.retry == 0 then
        local key = KEYS[first + j]
        local algorithm, quota, window, burst = limit.algorithm, limit.quota, limit.window, limit.burst
        local retry, remaining, reset, delay
        if not limit.row then
          local log = logs[key]
          if not log then
            -- @inline sliding_window.open_log
          end
          failure = log.err
          if failure then break end
          retry, remaining, reset, delay = 0, quota - (log.total - log.expired_total) - cost, window, 0
          if log.newest and log.newest > now then reset = log.newest - now + window end
          if remaining < 0 or cost == 0 then
            retry, remaining, reset = functions_of(algorithm).measure(limit, now, cost, key, log)
          end
        else
          local at, x, y, expires, asked_in = limit.at, limit.x, limit.y, 0, 0
          if not again then
            local slot = place[key] or request * rows + limit.row
            local value = values[slot]
            limit.slot = slot
            at, x, y = nil, 0, 0
            -- @inline decision.read_row
            if failure then break end
            limit.at, limit.x, limit.y, limit.expires, limit.asked_in = at, x, y, expires, asked_in
          end
          local next_at, next_x, next_y
          -- @choose measure
          limit.next_at, limit.next_x, limit.next_y = next_at, next_x, next_y
        end
        limit.retry, limit.remaining, limit.reset, limit.delay = retry, remaining, reset, delay
        if not again then
          local blocked_until = blocks_or_waiters and tonumber(call('ZSCORE', KEYS[j], key) or 0) or 0
          limit.blocked_until = blocked_until
          if retry ~= 0 or blocked_until > now then allowed = false end
          if ahead > 0 and asked > 0 then
            local wait
            if limit.row then
              wait = functions_of(algorithm).ahead(limit, now, ahead, asked, limit.at, limit.x, limit.y)
            else
              wait = functions_of(algorithm).ahead(limit, now, ahead, asked, key, logs[key])
            end
            limit.wait = wait
            if wait > 0 then allowed = false end
          end
        end
      end
    end
    again = not again and not allowed and not failure and cost > 0
    cost = 0
  until not again
  if failure then
    size = size + 1
    out[size] = failure
  else
    cost = allowed and asked or 0
    for j = 1, width do
      local limit, key = limits[j], KEYS[first + j]
      local retry, remaining, reset, delay = limit.retry, limit.remaining, limit.reset, limit.delay
      if ahead > 0 and asked > 0 and retry >= 0 then retry = math.max(retry, limit.wait) end
      if spending then
        if limit.row then
          local slot, at, x, y = place[key] or limit.slot, limit.at, limit.x, limit.y
          local expires, asked_in = limit.expires, limit.asked_in
          local next_at, next_x, next_y = limit.next_at, limit.next_x, limit.next_y
          -- @inline decision.spend_row
        elseif cost > 0 then
          local log, algorithm, window = logs[key], limit.algorithm, limit.window
          -- @inline sliding_window.spend_log
        end
      end
      local blocked_until = limit.blocked_until
      local blocked, shaped = blocked_until > now, limit.shaped
      -- @inline decision.add_verdict
    end
  end
end

-- @inline decision.write_rows
for i = 1, #changed do
  local key = changed[i]
  log_save(key, logs[key], logs[key].window, expires_at, together and clock == '' and second)
end
for j = 1, width do
  if limits[j].quota > 9007199254740928 or limits[j].window > 9007199254740928 then
    large_numbers_as_text(out)
    break
  end
end
return out
