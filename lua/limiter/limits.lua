-- Limits as scripts receive them, four words each: algorithm, quota, window in ms, and a third number: the burst of a
-- bucket, the start of a calendar window in ms, else ''.
local limits = {}

--- Ends the script with an error that contains the time, before anything is written, if now is outside the calendar
--- window that the process has computed. The process then asks again.
function limits.check_calendar(now, starts_at, window)
  if now < starts_at or now >= starts_at + window then error('CALENDAR ' .. string.format('%.0f', now)) end
end

--- Reads so many limits from ARGV, from `first` on. Returns the list, and the index after it.
function limits.read(first, count, now)
  local list = {}
  for i = 1, count do
    local limit = {
      algorithm = ARGV[first],
      quota = tonumber(ARGV[first + 1]),
      window = tonumber(ARGV[first + 2]),
      third = tonumber(ARGV[first + 3]),
    }
    if limit.algorithm == 'fixed_window' and limit.third then limits.check_calendar(now, limit.third, limit.window) end
    list[i] = limit
    first = first + 4
  end
  return list, first
end

--- Reads what a decision spent under each limit from ARGV, from `first` on, four numbers each.
function limits.read_receipts(first, count)
  local receipts = {}
  for i = 1, count do
    receipts[i] = {
      charged_at = tonumber(ARGV[first]),
      cost = tonumber(ARGV[first + 1]),
      remaining = tonumber(ARGV[first + 2]),
      reset = tonumber(ARGV[first + 3]),
    }
    first = first + 4
  end
  return receipts
end

--- The end of a member's block, ms; 0 if it is not blocked.
function limits.block_end(list, member)
  return tonumber(redis.call('ZSCORE', list, member) or 0)
end

--[[
  How many units wait in the line of `name` (see lines.note_units): 0 for most. A mark lasts for 6 s at
  most: a later one is from before the server's clock was set back.
]]
function limits.units_ahead(waiting_units, name)
  local ends_at = redis.call('ZSCORE', waiting_units, name)
  if not ends_at then return 0 end
  local time = redis.call('TIME')
  local lives_ms = ends_at - time[1] * 1000 - math.floor(time[2] / 1000)
  if lives_ms <= 0 or lives_ms > 6000 then return 0 end
  return -tonumber(redis.call('ZSCORE', waiting_units, name .. ' units') or 0)
end

return limits
