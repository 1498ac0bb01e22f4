--[[
  Adds rows of counts to `sums`, the sums of one interval of the dashboard. The rows are in ARGV from `first` on: id,
  then counts. `sums` is a HASH: a number from 0 to 15 → one text with all rows whose id begins with a letter of that
  number (its code modulo 16); each row is "id:", eight counts with commas between them, and ";". A few long texts cost
  less to read than a field for each row.
]]
local function add_outcome_counts(sums, first, count)
  local parts, texts, order = {}, {}, {}
  for i = 0, count - 1 do
    local part = string.byte(ARGV[first + 2 * i]) % 16
    if not parts[part] then
      order[#order + 1] = part
      parts[part] = #order
    end
  end
  if #order > 0 then texts = redis.call('HMGET', sums, unpack(order)) end
  local COUNTS = '(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+)'
  for i = 0, count - 1 do
    local id, row = ARGV[first + 2 * i] .. ':', ARGV[first + 2 * i + 1]
    local place = parts[string.byte(id) % 16]
    local text = texts[place] or ''
    local from, to = string.find(text, id, 1, true)
    if from then
      local _, last, a, b, c, d, e, f, g, h = string.find(text, COUNTS, to + 1)
      local A, B, C, D, E, F, G, H = string.match(row, COUNTS)
      row = string.format('%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f', a + A, b + B, c + C, d + D, e + E, f + F, g + G, h + H)
      texts[place] = string.sub(text, 1, to) .. row .. string.sub(text, last + 1)
    else
      texts[place] = text .. id .. row .. ';'
    end
  end
  local fields = {}
  for place, part in ipairs(order) do
    fields[#fields + 1] = part
    fields[#fields + 1] = texts[place]
  end
  if #fields > 0 then redis.call('HSET', sums, unpack(fields)) end
end

--[[
  Removes the record of a process that ends. Its contributions to sums stay.

  KEYS[1…3]  see dashboard_report
  ARGV[1]    process

  Returns the number of removed records.
]]
function dashboard_leave()
  local process = ARGV[1]
  redis.call('HDEL', KEYS[2], process)
  redis.call('HDEL', KEYS[3], process)
  return redis.call('ZREM', KEYS[1], process)
end

--[[
  Returns what a refresh of the dashboard needs before it reads hashes: the server's time, whether the index of objects
  has changed, the secret by which keys are hidden, and the newest change. Creates the secret for the first viewer; it
  lives for 90 days after the last one.

  KEYS[1]  state of the index: see index_note
  KEYS[2]  the secret: STRING
  KEYS[3]  changes: see dashboard_note_change
  ARGV[1]  a new secret, if there is none

  Returns the time in ms; the version of the index, 0 if there is none; the secret; the newest change, '' if there is
  none.
]]
function dashboard_read()
  local LIFE, RENEW = 7776000000, 7689600000
  local secret = redis.call('GET', KEYS[2])
  if not secret then
    secret = ARGV[1]
    redis.call('SET', KEYS[2], secret, 'PX', LIFE)
  elseif redis.call('PTTL', KEYS[2]) < RENEW then
    redis.call('PEXPIRE', KEYS[2], LIFE)
  end
  local newest = redis.pcall('LINDEX', KEYS[3], 0)
  return {
    now_ms(''),
    tonumber(redis.call('HGET', KEYS[1], 'version') or 0),
    secret,
    type(newest) == 'string' and newest or '',
  }
end

--[[
  Records a change made by the dashboard in its history: the newest 200, for 90 days.

  KEYS[1]  changes: LIST of the moment in ms, a space, and the change as JSON; newest first
  ARGV[1]  the change

  Returns the moment.
]]
function dashboard_note_change()
  local change = ARGV[1]
  local now = now_ms('')
  redis.call('LPUSH', KEYS[1], string.format('%.0f %s', now, change))
  redis.call('LTRIM', KEYS[1], 0, 199)
  redis.call('PEXPIRE', KEYS[1], 7776000000)
  return now
end

--[[
  Lists the changes made by the dashboard, newest first. Changes nothing.

  KEYS[1]  changes: see dashboard_note_change
  ARGV     none

  Returns the list.
]]
function dashboard_changes()
  return redis.call('LRANGE', KEYS[1], 0, -1)
end
