-- The epoch and the number of the newest change; '' and 0 before the first one.
local function live_state(key)
  local found = redis.call('HMGET', key, 'epoch', 'seq')
  return { epoch = found[1] or '', seq = tonumber(found[2] or 0) }
end
