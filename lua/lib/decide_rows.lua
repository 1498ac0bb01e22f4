--[[
  Decides a batch under one limit whose state is a row, where nobody is blocked: what consume does in general, without the
  detours that several limits need. Most traffic comes this way, and an instruction here is paid for by every request.
]]
-- @include row_measures
-- @include load_rows
-- @include save_rows
-- @include expiry
local function decide_rows(limit, clock, now, spending, one_cost, costs_at)
  local measure = row_measures[limit.algorithm]
  local shaped = limit.algorithm == 'leaky-bucket'
  local expires_at = expiry(clock, now)
  local keys = { unpack(KEYS, 2) }
  local at, x, y, errors = {}, {}, {}, {}
  load_rows(keys, at, x, y, errors)

  -- A key that stands in the batch again finds the state where it stood first.
  local slot_of, changed, expire_at = {}, {}, {}
  local out, size = { now }, 1
  for i = 1, #keys do
    local key = keys[i]
    local slot = slot_of[key]
    if not slot then
      slot = i
      slot_of[key] = i
    end
    if errors[slot] then
      size = size + 1
      out[size] = errors[slot]
    else
      local cost = one_cost or tonumber(ARGV[costs_at + i - 1])
      local was_at, was_x, was_y = at[slot], x[slot], y[slot]
      local retry, remaining, reset, delay, new_at, new_x, new_y = measure(limit, now, cost, was_at, was_x, was_y)
      if spending and new_at and (new_x ~= was_x or new_at ~= was_at or new_y ~= was_y) then
        at[slot], x[slot], y[slot] = new_at, new_x, new_y
        if not expire_at[slot] then changed[#changed + 1] = slot end
        expire_at[slot] = expires_at(reset)
      end
      if retry == 0 then
        out[size + 1] = remaining
        out[size + 2] = reset
        size = size + 2
        if shaped then
          size = size + 1
          out[size] = delay
        end
      else
        out[size + 1] = -1 - remaining
        out[size + 2] = reset
        out[size + 3] = retry
        size = size + 3
      end
    end
  end
  if #changed > 0 then save_rows(changed, keys, at, x, y, expire_at) end
  return out
end
