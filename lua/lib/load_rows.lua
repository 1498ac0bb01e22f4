--[[
  Reads the rows (three doubles: at, x, y) of the keys given. Fills rows[key] = { at, x, y }, or { at = nil, … } for a key that
  is not there, or { err = text } for a key that holds something else: that one fails, its neighbours do not.
]]
local function load_rows(keys, rows)
  if #keys == 0 then return end
  local values = redis.call('MGET', unpack(keys))
  local missing = {}
  for i, key in ipairs(keys) do
    local value = values[i]
    if not value then
      missing[#missing + 1] = key
      rows[key] = { at = nil, x = 0, y = 0 }
    elseif #value ~= 24 then
      rows[key] = { err = 'WRONGTYPE the key holds a value that is not a limit\'s' }
    else
      local at, x, y = struct.unpack('<ddd', value)
      rows[key] = { at = at, x = x, y = y }
    end
  end
  -- MGET answers nil for a key of another type as for none at all.
  if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
  for _, key in ipairs(missing) do
    if redis.call('EXISTS', key) == 1 then
      rows[key] = { err = 'WRONGTYPE the key holds a ' .. redis.call('TYPE', key).ok }
    end
  end
end
