--[[
  The memory of requests, so that one that is sent twice counts once. A request is the `number`th of a `sender`; what became of it
  is a kind and a value:
    1 granted at `value` ms     2 cancelled     3 booked with ticket `value`     4 done

  Two hashes take turns, each for a minute (for the state of one client no longer than an interval, because what a dead client
  leaves must go), so a request is remembered for one to two turns. A field holds 64 requests of a sender, and a sender keeps at
  most 64 fields: memory is bounded by the number of senders, not by what they do.

  Returns recall(), which gives kind and value or nil, and remember(kind, value).
]]
local function rate_memory(state, config, now, clock, sender, number)
  local turn_ms = config.mode == 'overall' and 60000 or math.min(60000, config.interval)
  local turn = math.floor(now / turn_ms)
  local block = math.floor(number / 64)
  local place = number % 64 * 8
  local field = string.format('%s:%.0f', sender, block)
  local here = KEYS[state.first + 3 + turn % 2]
  local there = KEYS[state.first + 4 - turn % 2]

  local function read(key, of_turn)
    local values = redis.pcall('HMGET', key, 'turn', field)
    if values.err or tonumber(values[1]) ~= of_turn then return false, nil end
    return true, values[2] or ''
  end

  local current, records
  local function recall()
    current, records = read(here, turn)
    local _, before = read(there, turn - 1)
    for _, text in ipairs({ records or '', before or '' }) do
      if #text >= place + 8 then
        local kind, value = struct.unpack('>I1I7', text, place + 1)
        if kind > 0 then return kind, value end
      end
    end
  end

  local function remember(kind, value)
    if not current then redis.call('UNLINK', here) end
    local text = current and records or ''
    local head = string.sub(text, 1, place) .. string.rep('\0', place - #text)
    local record = struct.pack('>I1I7', kind, value)
    redis.call('HSET', here, 'turn', turn, field, head .. record .. string.sub(text, place + 9))
    if current and place == 0 then redis.call('HDEL', here, string.format('%s:%.0f', sender, block - 64)) end
    redis.call('PEXPIRE', here, (turn + 2) * turn_ms - now + (clock ~= '' and 5000 or 0))
  end

  return recall, remember
end
