--[[
  The short way of most requests: one that comes alone, and is admitted. It makes no table but the answer, and no function. Whatever is
  unusual is left to steps/decide_rows, which begins anew: nothing has been written then. An algorithm stands in the place of @here.
  Reads what steps/open_one gives, and shaped.
]]
-- @include steps/is_lone
if lone then
  local key, read = KEYS[3], struct.unpack
  -- An error, which is a table, has no length: a key of another type is no row.
  local value, strange, failure, at = redis.pcall('GET', key), false, nil, nil
  local x, y = 0, 0
  -- @include steps/read_row
  if not failure then
    local cost = 1
    local retry, remaining, reset, delay, next_at, next_x, next_y
    local ends = 0
    if at and at <= now then
      -- @here ends
    end
    -- @here measure
    if retry == 0 then
      local row = struct.pack('<ddd', next_at, next_x, next_y)
      -- @include steps/outlives
      if outlives then
        call('SET', key, row, 'KEEPTTL')
      else
        local moment = now + reset + 4999
        call('SET', key, row, 'PXAT', moment - moment % 4000)
      end
      if shaped then return { now, remaining, reset, delay } end
      return { now, remaining, reset }
    end
  end
end
