--[[
  Reads rows (three doubles: at, x, y) into the arrays of that name, one for each of the keys given; at stays nil where there is
  none. A key that holds something else gets a text in `errors`: that one fails, its neighbours do not.
]]
local function load_rows(keys, at, x, y, errors)
  local count = #keys
  if count == 0 then return end
  local values = redis.call('MGET', unpack(keys))
  local missing, places = {}, {}
  for i = 1, count do
    local value = values[i]
    if not value then
      missing[#missing + 1] = keys[i]
      places[#places + 1] = i
      x[i], y[i] = 0, 0
    elseif #value ~= 24 then
      errors[i] = 'WRONGTYPE the key holds a value that is not a limit\'s'
    else
      at[i], x[i], y[i] = struct.unpack('<ddd', value)
      -- Whole ms since the epoch and what is not below zero: hardly any other text of this length reads as that.
      if math.floor(at[i]) ~= at[i] or math.abs(at[i]) > 9007199254740992 or not (x[i] >= 0 and y[i] >= 0) then
        errors[i] = 'WRONGTYPE the key holds a value that is not a limit\'s'
      end
    end
  end
  -- MGET answers nil for a key of another type as for none at all.
  if #missing == 0 or redis.call('EXISTS', unpack(missing)) == 0 then return end
  for i, key in ipairs(missing) do
    local kind = redis.call('TYPE', key).ok
    if kind ~= 'none' then errors[places[i]] = 'WRONGTYPE the key holds a ' .. kind end
  end
end
