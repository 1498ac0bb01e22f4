--[[
  leaky-bucket: allowed requests wait until those before them have left, window/quota apart. Row: see
  lua/limiter/lib/bucket.lua. lua/limiter/lib/limits.lua (functions_of) describes the pieces.
]]

function traits()
  has_burst, shaped = true, true
end

function measure()
  local shaped = true
  -- @inline bucket.measure
end

function functions()
  -- @inline rows.measure_function
  -- A place is given back only if it is the last one: a freed place in the middle would let the next request leave
  -- together with the last.
  local function settle(limit, now, units, receipt, at, x, y, note)
    local level, charged_at = bucket_level(limit, now, at, x, y), receipt.charged_at
    if level == 0 or charged_at > now or note.cut_at and charged_at < note.cut_at then return end
    -- Each unit raises the level by a whole window, so the whole units of the verdict tell whether later requests were
    -- charged.
    local level_then = (limit.burst - receipt.remaining) * limit.window
    if level + limit.quota * (now - charged_at) > level_then then return end
    local found, capacity = bucket_found(limit, x, y)
    return at, found - math.min(math.min(units, own_units_left(receipt, note)) * limit.window, level), capacity
  end
  functions = bucket(true, measure, settle)
end
