--[[ Writes a row with its lifetime. ]]
local function save_row(key, row, ttl)
  redis.call('SET', key, struct.pack('<ddd', row.at, row.x, row.y), 'PX', ttl)
end
