--[[
  Decides a batch under one sliding-window limit: what consume does, with a short way for what is commonest: a log from which
  nothing expires just now, and a request that fits.

  KEYS, ARGV  as of steps/open_batch
  Returns     what consume returns
]]
-- @include now_ms
-- @include log_unpack
-- @include log_save
-- @include steps/open_batch
local limit, shaped = { quota = quota, window = window }, false
local pcall, read = redis.pcall, struct.unpack

-- What is seldom needed: functions are made anew at each call, and cost as much as what they do.
local log_open, log_rebase, sliding_window
local function make_rare()
  -- @include log_open
  -- @include log_rebase
  -- @include sliding_window
  return log_open, log_rebase, sliding_window
end

-- A key that stands in the batch twice is read once and written once.
local logs, changed = {}, {}
for i = 2, #KEYS do
  local key = KEYS[i]
  local log = logs[key]
  if not log then
    local head = pcall('LRANGE', key, '0', '2')
    local second = head[2]
    if second then
      local last = head[3] and call('LINDEX', key, '-1') or second
      local head_format, second_format, last_format = log_formats[#head[1]], log_formats[#second], log_formats[#last]
      if head_format and second_format and last_format then
        local booked, gone = read(head_format, head[1])
        local oldest, oldest_total = read(second_format, second)
        local newest, total = read(last_format, last)
        if newest <= now and now - oldest < window then
          log = {
            booked = booked,
            gone = gone,
            oldest = oldest,
            oldest_total = oldest_total,
            newest = newest,
            total = total,
            stored = newest,
            first = 1,
          }
        end
      end
    elseif not head[1] and not head.err then
      log = { gone = 0, total = 0, booked = 0 }
    end
    if not log then
      if not log_open then log_open, log_rebase, sliding_window = make_rare() end
      log = log_open(key, window, now, spending)
    end
    logs[key] = log
  end
  if log.err then
    size = size + 1
    out[size] = log.err
  else
    local cost = one_cost or tonumber(ARGV[5 + i])
    local blocked_until = some_blocked and tonumber(call('ZSCORE', KEYS[1], key) or 0) or 0
    local blocked = blocked_until > now
    local total = log.total
    local retry, remaining, reset, delay = 0, quota - (total - log.gone) - cost, window, 0
    if remaining >= 0 and cost > 0 and not blocked then
      if spending then
        if total + cost > 9007199254740991 then
          if not log_open then log_open, log_rebase, sliding_window = make_rare() end
          log_rebase(key, log)
          total = log.total
        end
        total = total + cost
        log.total, log.newest = total, now
        -- The oldest entry is also the newest: it grows.
        if not log.oldest or log.oldest == now then log.oldest, log.oldest_total, log.first = now, total, log.first or 1 end
        if not log.expire_at then changed[#changed + 1] = key end
        -- @include steps/lifetime
        log.expire_at = text
      end
    else
      if not log_open then log_open, log_rebase, sliding_window = make_rare() end
      retry, remaining, reset = sliding_window(limit, now, cost, key, log)
      -- A block spends nothing: what would be allowed is told as it stands.
      if blocked and retry == 0 then retry, remaining, reset = sliding_window(limit, now, 0, key, log) end
    end
    -- @include steps/tell
  end
end

for i = 1, #changed do
  local key = changed[i]
  local log = logs[key]
  log_save(key, log, log.expire_at)
end
if quota > 9007199254740928 then
  -- @include steps/spell
end
return out
