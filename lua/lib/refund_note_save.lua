--[[
  Writes a refund note. Its lifetime ends when no decision that it concerns can be settled any more, be it one of the limit before a change, which took longer
  to fill.
]]
local function refund_note_save(key, note, limit, expires_at)
  if not note.cut_at and #note.gaps == 0 and not note.leased_until then return end
  local lasts = 2 * limit.window
  -- For a calendar window, burst is its start.
  if limit.quota > 0 and limit.algorithm ~= 'calendar-window' then lasts = math.max(lasts, math.ceil(limit.burst * limit.window / limit.quota)) end
  local left = redis.call('PTTL', key)
  local packed = cmsgpack.pack({ note.cut_at or false, note.refunded, note.left, note.gaps, note.leased_until or false, note.capacity })
  local expire_at = expires_at(lasts, left)
  if expire_at then
    redis.call('SET', key, packed, 'PXAT', expire_at)
  else
    redis.call('SET', key, packed, 'KEEPTTL')
  end
end
