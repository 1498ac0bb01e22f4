--[[
  When the total `reached` was reached, or will be: the time of the grant, or the turn of the booking, by which so much will have
  been spent. nil if that has expired already. Bookings from index `planned` on are not looked at. Asked for rising totals it
  mostly looks at one entry.
]]
-- @include log_search
-- @include booking_search
local function rate_moment(state, reached, planned)
  local log = state.log
  if reached <= state.gone then return nil end
  local found = state.found
  if found and found.before < reached and reached <= found.total then return found.at end
  if reached <= state.base then
    local key = state.log_key
    local index, at, total = log.first, log.oldest, log.oldest_total
    if found and found.log and found.total < reached then index, at, total = found.index, found.at, found.total end
    local before = state.gone
    if total < reached then
      local length = redis.call('LLEN', key)
      local next_at, next_total = log_unpack(redis.call('LINDEX', key, index + 1))
      if next_total < reached then
        local i, a, t = log_search(key, index + 2, length, function(_, sum) return sum >= reached end)
        local _, b = log_unpack(redis.call('LINDEX', key, i - 1))
        index, at, total, before = i, a or log.newest, t or log.total, b
      else
        before = total
        index, at, total = index + 1, next_at, next_total
      end
    end
    at = math.min(at, log.newest)
    state.found = { log = true, index = index, at = at, total = total, before = before }
    return at
  end
  local low = found and not found.log and found.total < reached and found.index + 1 or 0
  local test = function(_, total) return total >= reached end
  local index, turn, total, _, permits = booking_search(state.queue_key, low, math.min(low + 1, planned), test)
  if not turn then index, turn, total, _, permits = booking_search(state.queue_key, low, planned, test) end
  if not turn then return nil end
  state.found = { log = false, index = index, at = turn, total = total, before = total - permits }
  return turn
end
