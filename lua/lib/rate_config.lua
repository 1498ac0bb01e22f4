--[[
  The rate as it is set: { rate, interval, mode, keep_alive, birth, version, forgotten, set_at, set_by, ends_at, idle_until }, or nil where
  none is set or its time is over, or { err }. Fields of the hash:
    rate, interval (ms), mode    what is allowed           keepAlive     ms without use after which all is gone; absent: never
    birth    whose life this is: state of another birth is void           endsAt, idleUntil   ms; absent: never
    version  grows with every setting                      forgotten     the version that forgot what was spent
    setAt    ms                                            setBy         the request that set it
]]
local function rate_config(key, now)
  local fields = redis.pcall(
    'HMGET', key, 'rate', 'interval', 'mode', 'keepAlive', 'birth', 'version', 'forgotten', 'setAt', 'setBy', 'endsAt', 'idleUntil'
  )
  if fields.err then return fields end
  local config = {
    rate = tonumber(fields[1]),
    interval = tonumber(fields[2]),
    mode = fields[3],
    keep_alive = tonumber(fields[4]),
    birth = fields[5],
    version = tonumber(fields[6]),
    forgotten = tonumber(fields[7]),
    set_at = tonumber(fields[8]),
    set_by = fields[9],
    ends_at = tonumber(fields[10]),
    idle_until = tonumber(fields[11]),
  }
  if not (config.rate and config.interval and config.mode and config.birth and config.version) then return nil end
  if config.ends_at and now >= config.ends_at then return nil end
  if config.idle_until and now >= config.idle_until then return nil end
  return config
end
