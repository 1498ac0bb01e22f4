--[[
  Gives back at most some units of what one decision spent, at the moment when it was charged, so far as they still count. What the
  clock shows twice, because it stepped back, is not settled: it is not known on which pass it was charged.

  KEYS     the state of each limit; then, for each, its note
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  units to give back to each limit
  ARGV[3]  the first moment that the clock shows twice, ms; '' for none
  ARGV[4]  the last such moment
  ARGV[5]  number of limits, then for each: algorithm, quota, window in ms, burst; then for each: charged at, cost, remaining, reset
  ARGV[…]  last: until when this may be carried out, ms

  Returns now, and nothing else, if it came too late; else nothing; an error of the first key that holds something else, before
  anything changed.
]]
-- @include now_ms
-- @include read_limits
-- @include read_receipts
-- @include expiry
-- @include standing
-- @include log_open
-- @include row_settlements
-- @include settle_sliding_window
-- @include note_open
-- @include note_save
local clock = ARGV[1]
local now = now_ms(clock)
-- @include steps/in_time
local units = tonumber(ARGV[2])
local twice_from, twice_until = tonumber(ARGV[3]), tonumber(ARGV[4])
local count = tonumber(ARGV[5])
local limits, receipts_at = read_limits(6, count)
local receipts = read_receipts(receipts_at, count)

local states, logs = {}, {}
for i = 1, count do
  local limit, key = limits[i], KEYS[i]
  if row_settlements[limit.algorithm] then
    states[i] = standing(limit, key, now, clock)
  else
    logs[i] = log_open(key, limit.window, now, false)
  end
  local err = (states[i] or logs[i]).err
  if err then return redis.error_reply(err) end
end
for i = 1, count do
  local limit, receipt, key, note_key = limits[i], receipts[i], KEYS[i], KEYS[count + i]
  local charged_at = receipt.charged_at
  local doubtful = twice_from and charged_at >= twice_from and charged_at <= twice_until
  if not doubtful then
    local state, expires_at = states[i], expiry(clock, now)
    if not state then
      settle_sliding_window(limit, now, units, receipt, key, logs[i], expires_at)
    else
      local at, x, y = state.row()
      if at then
        local note = note_open(note_key)
        local next_at, next_x, next_y = row_settlements[limit.algorithm].give_back(limit, now, units, receipt, at, x, y, note)
        if next_at then
          state.become(next_at, next_x, next_y)
          state.save()
          note_save(note_key, note, limit, expires_at)
        end
      end
    end
  end
end
