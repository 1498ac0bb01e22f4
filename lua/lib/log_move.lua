--[[
  Moves units of a log to an earlier moment, so that they expire earlier. `moves` (ms → units): that many of the units spent at that moment count from
  `to` on, if `to` is earlier. Units that are no longer in the log are ignored. Rewrites only the entries since `to`; if there are more than 1000,
  moves nothing. `log` comes from log_open, writable, and must be opened again afterwards.
]]
-- @include log_pack
-- @include log_search
-- @include log_unpack
local function log_move(key, log, window, now, moves, to)
  if not log.newest or now - to >= window then return end
  local length = redis.call('LLEN', key)
  -- The first entry only stores the total before the second.
  local first, at = log_search(key, 1, length, function(at) return at >= to end)
  if not at or length - first > 1000 then return end
  local _, before = log_unpack(redis.call('LINDEX', key, first - 1))
  local entries = redis.call('LRANGE', key, first, '-1')

  -- How many units of each entry move: at most all of them.
  local moved, total = {}, before
  local sum = 0
  for i, entry in ipairs(entries) do
    local entry_at, entry_total = log_unpack(entry)
    moved[i] = entry_at > to and math.min(moves[entry_at] or 0, entry_total - total) or 0
    sum = sum + moved[i]
    total = entry_total
  end
  if sum == 0 then return end

  local written, ahead = {}, sum
  if at > to then written[1] = log_pack(to, before + sum) end
  total = before + (at > to and sum or 0)
  for i, entry in ipairs(entries) do
    local entry_at, entry_total = log_unpack(entry)
    ahead = ahead - moved[i]
    -- An entry whose units have all moved is omitted.
    if entry_total + ahead > total then
      written[#written + 1] = log_pack(entry_at, entry_total + ahead)
      total = entry_total + ahead
    end
  end
  redis.call('LTRIM', key, '0', first - 1)
  redis.call('RPUSH', key, unpack(written))
end
