--[[
  The state of one key under one limit: a log, or a row. Returns an object with
    err                 the text of an error, if the key holds something else
    charge(cost)        spends though it may not fit
    refund_oldest(cost) gives back: a log its oldest, a row its newest
    row()               at, x and y of a row, which become(at, x, y) changes
    save()              writes; nothing is written before, but for a log, which is always up to date
  expires_at may be given where keys have lifetimes of another kind than `expiry` gives them.
]]
-- @include load_rows
-- @include save_rows
-- @include row_measures
-- @include charge_row
-- @include refund_row
-- @include log_open
-- @include log_refund_oldest
-- @include log_spend
-- @include expiry
local function standing(limit, key, now, clock, expires_at)
  expires_at = expires_at or expiry(clock, now)
  local measure_row = row_measures[limit.algorithm]
  if measure_row then
    local at, x, y, errors = {}, {}, {}, {}
    load_rows({ key }, at, x, y, errors)
    local function charge(cost) at[1], x[1], y[1] = charge_row(limit, now, cost, at[1], x[1], y[1]) end
    local function refund(cost)
      local new_at, new_x, new_y = refund_row(limit, now, cost, at[1], x[1], y[1])
      if new_at then at[1], x[1], y[1] = new_at, new_x, new_y end
    end
    return {
      err = errors[1],
      refund_oldest = refund,
      row = function() return at[1], x[1], y[1] end,
      become = function(new_at, new_x, new_y) at[1], x[1], y[1] = new_at, new_x, new_y end,
      charge = charge,
      save = function()
        if not at[1] then return end
        local _, _, reset = measure_row(limit, now, 0, at[1], x[1], y[1])
        save_rows({ 1 }, { key }, at, x, y, { expires_at(reset) })
      end,
    }
  end
  local log = log_open(key, limit.window, now, true)
  return {
    err = log.err,
    charge = function(cost)
      local at = math.max(now, log.newest or now)
      log_spend(key, log, at, cost, expires_at(at - now + limit.window))
    end,
    refund_oldest = function(cost)
      if not log.newest then return end
      log_refund_oldest(key, log, cost, expires_at(math.max(0, log.newest - now) + limit.window))
      log = log_open(key, limit.window, now, true)
    end,
    save = function() end,
  }
end
