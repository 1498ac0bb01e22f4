--[[
  Deletes what keys have spent.

  KEYS     the state of each limit; then, for each, its note; then, if leases may have been sold, those of each
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  number of limits, then for each: algorithm, quota, window in ms, burst
  ARGV[…]  last: the last moment at which the script may act, ms

  Returns now, and nothing else, if it was too late; else nothing.
]]
-- @include now_ms
-- @include read_limits
-- @include expiry
-- @include open_state
-- @include refund_note_open
-- @include refund_note_save
local clock = ARGV[1]
local now = now_ms(clock)
-- @include steps/stop_if_late
local count = tonumber(ARGV[2])
local limits = read_limits(3, count, now)
local expires_at = expiry(clock, now)

for i = 1, count do
  local key, limit = KEYS[i], limits[i]
  local spent = false
  if functions_of(limit.algorithm).notes_resets then
    local state = open_state(limit, key, now, expires_at)
    spent = not state.err and state.reset() > 0
  end
  redis.call('UNLINK', key)
  -- Unspent units of a lease do not come back after this.
  if KEYS[2 * count + i] then redis.call('UNLINK', KEYS[2 * count + i]) end
  if spent then
    -- A charge in the same ms counts as made after it.
    local note = refund_note_open(KEYS[count + i])
    note.cut_at, note.refunded, note.left, note.gaps, note.leased_until = now - 1, 9007199254740991, 0, {}, nil
    refund_note_save(KEYS[count + i], note, limit, expires_at)
  end
end
