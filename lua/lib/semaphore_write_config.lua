--[[ Writes the changed fields of a semaphore's configuration and counts. ]]
local SEMAPHORE_FIELDS = { 'permits', 'used', 'last', 'idle', 'calm', 'life' }

local function semaphore_write_config(s)
  local changed = {}
  for i, field in ipairs(SEMAPHORE_FIELDS) do
    local value = s[field]
    if value and value ~= tonumber(s.stored[i]) then
      changed[#changed + 1] = field
      changed[#changed + 1] = string.format('%.0f', value)
    end
  end
  if not s.stored[7] then
    changed[#changed + 1] = 'v'
    changed[#changed + 1] = SEMAPHORE_VERSION
  end
  if #changed > 0 then redis.call('HSET', s.config, unpack(changed)) end
end
