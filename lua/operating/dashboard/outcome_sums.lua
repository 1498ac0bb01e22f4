-- What was decided, summed up for charts.
local outcome_sums = {}

--[[
  Adds rows of counts to `sums`, the sums of one interval of the dashboard. The rows are in ARGV from `first` on: id,
  then counts. `sums` is a HASH: a number from 0 to 15 → one text with all rows whose id begins with a letter of that
  number (its code modulo 16); each row is "id:", eight counts with commas between them, and ";". A few long texts cost
  less to read than a field for each row.
]]
function outcome_sums.add(sums, first, count)
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
      row = string.format(
        '%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f', a + A, b + B, c + C, d + D, e + E, f + F, g + G, h + H
      )
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

return outcome_sums
