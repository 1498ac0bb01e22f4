--[[
  sliding-window: an exact log of spent units and their times. Its state is not a row but a list: see log_open.
  lua/limiter/lib/limits.lua (functions_of) describes the pieces.
]]

function traits()
  has_log = true
end

--[[
  Sets `log` to the log of `key`, as log_open describes it. It takes a fast path if no entry has expired. Reads now,
  window and spending; uses call, log_formats, algorithm and functions_of.
]]
function open_log()
  local head = redis.pcall('LRANGE', key, '0', '2')
  local second = head[2]
  if second then
    local last = head[3] and call('LINDEX', key, '-1') or second
    local head_format, second_format, last_format = log_formats[#head[1]], log_formats[#second], log_formats[#last]
    if head_format and second_format and last_format then
      local _, expired_total = read(head_format, head[1])
      local oldest, oldest_total = read(second_format, second)
      local newest, total = read(last_format, last)
      if newest <= now and now - oldest < window then
        log = {
          expired_total = expired_total,
          oldest = oldest,
          oldest_total = oldest_total,
          newest = newest,
          total = total,
          stored_newest = newest,
          window = false,
        }
      end
    end
  elseif not head[1] and not head.err then
    -- A table that need not grow.
    log = {
      expired_total = 0,
      oldest = false,
      oldest_total = 0,
      newest = false,
      total = 0,
      stored_newest = false,
      window = false,
    }
  end
  if not log then log = functions_of(algorithm).open_log(key, window, now, spending) end
  logs[key] = log
end

--[[
  Spends `cost` now in `log`, that of `key`: at once before the entries of leases that still last; else log_save writes
  at the end what the whole batch has spent. Reads now, window and reset; uses changed, expires_at, algorithm and
  functions_of.
]]
function spend_log()
  if log.newest and log.newest > now then
    -- A lease lives, whose units count from its end.
    functions_of(algorithm).insert(key, log, now, cost, nil, expires_at(reset))
  else
    if log.total + cost > 9007199254740991 then functions_of(algorithm).rebase(key, log) end
    log.total = log.total + cost
    log.newest = now
    -- The oldest entry is also the newest: it grows.
    if not log.oldest or log.oldest == now then log.oldest, log.oldest_total = now, log.total end
    if not log.window then
      changed[#changed + 1] = key
      log.window = window
    end
  end
end

function functions()
  functions = {
    open_state = log_state,
    open_log = log_open,
    insert = log_insert,
    rebase = log_rebase,
    measure = sliding_window,
    ahead = log_ahead,
  }
end
