--[[
  Decides a batch under several limits whose states are rows: what consume does in general, without the detours that logs need.
  An instruction here is paid for by every request: hence no function that is not needed.

  KEYS, ARGV  as of consume
  Returns     what consume returns
]]
-- @include now_ms
-- @include row_measures
local call, pack, read = redis.call, struct.pack, struct.unpack
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
local spending = ARGV[3] == '1'
if valid_until and now > valid_until then return { now } end
local width = tonumber(ARGV[4])
local limits, measures, shaped = {}, {}, {}
for j = 1, width do
  local algorithm = ARGV[4 * j + 1]
  limits[j] = {
    algorithm = algorithm,
    quota = tonumber(ARGV[4 * j + 2]),
    window = tonumber(ARGV[4 * j + 3]),
    burst = tonumber(ARGV[4 * j + 4]),
  }
  measures[j] = row_measures[algorithm]
  shaped[j] = algorithm == 'leaky-bucket'
end
local costs_at = 4 * width + 5
local one_cost = #ARGV == costs_at and tonumber(ARGV[costs_at])
local count = #KEYS
local some_blocked = call('EXISTS', unpack(KEYS, 1, width)) > 0

-- MGET answers nil for a key of another type as for none at all.
local values = call('MGET', unpack(KEYS, width + 1))
local missing
for i = width + 1, count do
  if not values[i - width] then
    missing = missing or {}
    missing[#missing + 1] = KEYS[i]
  end
end
local strange = missing and call('EXISTS', unpack(missing)) > 0

-- A key may go a little after its state is as if never used: no decision depends on expiry. A given clock may stand still while the
-- server's does not. In steps of four seconds, so that keys share texts: making one costs more than the command.
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}

-- What is to be written: key and row in turn, and the moments at which the keys may go. Some keys stand in the batch twice.
local writes, written, place, expire_at = {}, 0, {}, {}
local out, size = { now }, 1
-- How one request fares with each limit.
local at, x, y, retry, remaining, reset, delay, next_at, next_x, next_y, until_at = {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}
for first = width + 1, count, width do
  local cost = one_cost or tonumber(ARGV[costs_at + (first - 1) / width - 1])
  local allowed, failure = true, nil
  for j = 1, width do
    local key = KEYS[first + j - 1]
    local value = place[key] and writes[place[key]] or values[first + j - 1 - width]
    local now_at, now_x, now_y = nil, 0, 0
    if value then
      if #value == 24 then now_at, now_x, now_y = read('<ddd', value) end
      -- Whole ms since the epoch and what is not below zero: hardly any other text of this length reads as that.
      if not now_at or now_at % 1 ~= 0 or now_at > 9007199254740992 or now_at < -9007199254740992 or not (now_x >= 0 and now_y >= 0) then
        failure = 'WRONGTYPE the key holds a value that is not a limit\'s'
        break
      end
    elseif strange then
      local kind = call('TYPE', key).ok
      if kind ~= 'none' then
        failure = 'WRONGTYPE the key holds a ' .. kind
        break
      end
    end
    at[j], x[j], y[j] = now_at, now_x, now_y
    retry[j], remaining[j], reset[j], delay[j], next_at[j], next_x[j], next_y[j] =
      measures[j](limits[j], now, cost, now_at, now_x, now_y)
    local until_j = some_blocked and tonumber(call('ZSCORE', KEYS[j], key) or 0) or 0
    until_at[j] = until_j
    if retry[j] ~= 0 or until_j > now then allowed = false end
  end
  if failure then
    size = size + 1
    out[size] = failure
  else
    for j = 1, width do
      -- Where nothing is spent, a limit that would have allowed it is told as it stands.
      if not allowed and retry[j] == 0 and cost > 0 then
        local _
        _, remaining[j], reset[j], delay[j], next_at[j], next_x[j], next_y[j] = measures[j](limits[j], now, 0, at[j], x[j], y[j])
      end
      local new_at, new_x, new_y = next_at[j], next_x[j], next_y[j]
      if spending and new_at and (new_x ~= x[j] or new_at ~= at[j] or new_y ~= y[j]) then
        local key = KEYS[first + j - 1]
        local row = place[key]
        if not row then
          written = written + 1
          row = 2 * written
          place[key] = row
          writes[row - 1] = key
        end
        writes[row] = pack('<ddd', new_at, new_x, new_y)
        local moment = math.ceil((server_now + reset[j] + padding) / 4000)
        local text = texts[moment]
        if not text then
          text = string.format('%.0f', moment * 4000)
          texts[moment] = text
        end
        expire_at[row / 2] = text
      end
      local wait = retry[j]
      if wait == 0 and until_at[j] <= now then
        out[size + 1] = remaining[j]
        out[size + 2] = reset[j]
        size = size + 2
        if shaped[j] then
          size = size + 1
          out[size] = delay[j]
        end
      else
        if until_at[j] > now and wait >= 0 then wait = -2 - math.max(wait, until_at[j] - now) end
        out[size + 1] = -1 - remaining[j]
        out[size + 2] = reset[j]
        out[size + 3] = wait
        size = size + 3
      end
    end
  end
end

-- One MSET and a PEXPIREAT each cost less than as many SET with a lifetime.
if written > 0 then
  call('MSET', unpack(writes))
  for i = 1, written do call('PEXPIREAT', writes[2 * i - 1], expire_at[i]) end
end
for j = 1, width do
  if limits[j].quota > 9007199254740928 then
    -- @include steps/spell
    break
  end
end
return out
