--[[
  What several limits can still grant together, all or none, as line_walk and line_ask describe it. A waiter's `own` are the quota and the
  burst that it asked under, of each limit in turn: processes of an older configuration may wait in the same line. A grant tells remaining and reset of
  each limit. save() writes what has changed. Returns { err } where a key holds something else.

  keys, blocks, notes   of each limit: its state, the ZSET of who is blocked, and what settlements have to know of it
]]
-- @include load_rows
-- @include save_rows
-- @include row_measures
-- @include refund_row
-- @include row_ahead
-- @include log_open
-- @include log_spend
-- @include settle_sliding_window
-- @include row_settlements
-- @include note_open
-- @include note_save
-- @include log_ahead
-- @include blocked_until
-- @include expiry
local function limit_capacity(limits, keys, blocks, notes, now, clock)
  local expires_at = expiry(clock, now)
  local count = #limits
  local logs, at, x, y, changed = {}, {}, {}, {}, {}
  local rows, errors, shortest = {}, {}, math.huge
  local blocked = 0
  for i = 1, count do
    local limit = limits[i]
    shortest = math.min(shortest, limit.window)
    if row_measures[limit.algorithm] then
      rows[#rows + 1] = i
    else
      logs[i] = log_open(keys[i], limit.window, now, true)
      if logs[i].err then return logs[i] end
    end
    blocked = math.max(blocked, blocked_until(blocks[i], keys[i]) - now)
  end
  local row_keys, row_at, row_x, row_y = {}, {}, {}, {}
  for j, i in ipairs(rows) do row_keys[j] = keys[i] end
  load_rows(row_keys, row_at, row_x, row_y, errors)
  for j, i in ipairs(rows) do
    if errors[j] then return { err = errors[j] } end
    at[i], x[i], y[i] = row_at[j], row_x[j], row_y[j]
  end

  local known = {}
  local function limits_of(own)
    local list = known[own]
    if list then return list end
    list = {}
    local i = 0
    for quota, burst in string.gmatch(own, '(%d+) (%d+)') do
      i = i + 1
      local limit = limits[i]
      if not limit then break end
      list[i] = { algorithm = limit.algorithm, window = limit.window, quota = tonumber(quota), burst = tonumber(burst) }
    end
    for j = i + 1, count do list[j] = limits[j] end
    known[own] = list
    return list
  end

  local capacity = { now = now, most = 9007199254740991, late = math.max(50, math.floor(shortest / 10)) }

  capacity.when = function(ahead, cost, own)
    local longest = blocked
    for i, limit in ipairs(limits_of(own)) do
      local wait
      if logs[i] then
        wait = log_ahead(limit, now, ahead, cost, keys[i], logs[i])
      else
        wait = row_ahead(limit, now, ahead, cost, at[i], x[i], y[i], true)
      end
      if wait < 0 then return -1 end
      longest = math.max(longest, wait)
    end
    return longest
  end

  capacity.grant = function(cost, own, into)
    for i, limit in ipairs(limits_of(own)) do
      local remaining, reset, _
      if logs[i] then
        local log = logs[i]
        log_spend(keys[i], log, now, cost, expires_at(limit.window))
        remaining, reset = math.max(0, limit.quota - (log.total - log.gone)), limit.window
      else
        _, remaining, reset, _, at[i], x[i], y[i] = row_measures[limit.algorithm](limit, now, cost, at[i], x[i], y[i])
        changed[i] = true
      end
      into[#into + 1] = remaining
      into[#into + 1] = reset
    end
  end

  capacity.give_back = function(cost, own, spent_at)
    for i, limit in ipairs(limits_of(own)) do
      if logs[i] then
        settle_sliding_window(limit, now, cost, { charged_at = spent_at }, keys[i], logs[i], expires_at)
        logs[i] = log_open(keys[i], limit.window, now, true)
      elseif now - spent_at < 2 * limit.window then
        local next_at, next_x, next_y = refund_row(limit, now, cost, at[i], x[i], y[i])
        if next_at then
          at[i], x[i], y[i] = next_at, next_x, next_y
          changed[i] = true
          local note = note_open(notes[i])
          row_settlements[limit.algorithm].cut(limit, now, cost, next_at, next_x, next_y, note)
          note_save(notes[i], note, limit, expires_at)
        end
      end
    end
  end

  capacity.save = function()
    for _, i in ipairs(rows) do
      if changed[i] then
        local _, _, reset = row_measures[limits[i].algorithm](limits[i], now, 0, at[i], x[i], y[i])
        save_rows({ i }, keys, at, x, y, { [i] = expires_at(reset) })
      end
    end
  end
  return capacity
end
