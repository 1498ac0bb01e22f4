--[[
  Decides a batch under one limit whose state is a log, that is a sliding window: as consume_row does for rows. It has
  fast paths for the most common cases: a log without newly expired entries, and a request that fits.

  KEYS, ARGV   as of consume_row

  Returns what consume returns; or one number for one request that is admitted: see answer_lone.
]]
local algorithm, shaped, has_burst = 'ALGORITHM', false, false
-- @inline decision.arguments

-- One request of cost 1, as in consume_row: if no entry of its log has expired and none is of a lease, and all have
-- totals of one length (see log_pack).
if lone then
  local key = KEYS[3]
  local head = redis.pcall('LRANGE', key, '0', '1')
  local first, second = head[1], head[2]
  if second then
    local last = call('LINDEX', key, '-1')
    local length = #last
    local entry, largest
    if length == 8 then
      entry, largest = '>I6I2', 65535
    elseif length == 9 then
      entry, largest = '>I6I3', 16777215
    elseif length == 10 then
      entry, largest = '>I6I4', 4294967295
    end
    if entry and #first == length and #second == length then
      local read, left = struct.unpack, call('PTTL', key)
      local _, expired_total = read(entry, first)
      local oldest = read(entry, second)
      local newest, total = read(entry, last)
      total = total + 1
      local most, remaining, reset = quota, quota - (total - expired_total), window
      if newest <= now and now - oldest < window and remaining >= 0 and total <= largest then
        local spent = struct.pack(entry, now, total)
        if newest == now then
          call('LSET', key, '-1', spent)
        else
          call('RPUSH', key, spent)
        end
        local server_now, padding = now, 3000
        -- @inline decision.lifetime
        if expire_at then call('PEXPIREAT', key, expire_at) end
        -- @inline decision.answer_lone
      end
    end
  end
end

-- @inline decision.answer
local expires_at = expiry(clock, now)
local waiting, limit = KEYS[2], { quota = quota, window = window }
local one_cost = #ARGV <= costs_at and tonumber(ARGV[costs_at] or 1)

-- A key that is in the batch twice is read once and written once.
local logs, changed = {}, {}
for i = 3, #KEYS do
  local key = KEYS[i]
  local log = logs[key]
  if not log then
    -- @inline ALGORITHM.open_log
  end
  if log.err then
    size = size + 1
    out[size] = log.err
  else
    local cost = one_cost or tonumber(ARGV[costs_at - 3 + i])
    local blocked_until = blocks_or_waiters and tonumber(call('ZSCORE', KEYS[1], key) or 0) or 0
    local blocked = blocked_until > now
    local line_name = key
    -- @inline decision.read_ahead
    local wait = ahead > 0 and cost > 0 and functions_of(algorithm).ahead(limit, now, ahead, cost, key, log) or 0
    local retry, remaining, reset, delay = 0, quota - (log.total - log.expired_total) - cost, window, 0
    if log.newest and log.newest > now then reset = log.newest - now + window end
    if remaining < 0 or cost == 0 or blocked or wait > 0 then
      local measure = functions_of(algorithm).measure
      retry, remaining, reset = measure(limit, now, cost, key, log)
      -- A blocked or waiting key spends nothing: a limit that would allow the request reports its present state.
      if (blocked or wait > 0) and retry == 0 then retry, remaining, reset = measure(limit, now, 0, key, log) end
      if wait > retry and retry >= 0 then retry = wait end
    elseif spending then
      -- @inline ALGORITHM.spend_log
    end
    -- @inline decision.add_verdict
  end
end

for i = 1, #changed do
  local key = changed[i]
  log_save(key, logs[key], window, expires_at, KEYS[4] and clock == '' and second)
end
if quota > 9007199254740928 or window > 9007199254740928 then
  large_numbers_as_text(out)
end
return out
