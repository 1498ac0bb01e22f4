-- Settlement notes: what settlements must know of a key in addition to its state.
local lifetimes = require 'redis.lifetimes'
local notes = {}

--[[
  Reads the note of a key:
    cut_at        the moment of the last refund or reset; nil: none
    refunded      units given back of those charged until then
    left          of a bucket: its level just after the cut
    gaps          of a token bucket: from, to and size of each
    leased_until  of a bucket: the end of its newest lease; nil: none
    capacity      of a bucket: the capacity under which left and gaps are counted
]]
function notes.open(key)
  local packed = redis.call('GET', key)
  if not packed then return { refunded = 0, left = 0, gaps = {}, capacity = 0 } end
  local cut_at, refunded, left, gaps, leased_until, capacity = unpack(cmsgpack.unpack(packed))
  return {
    cut_at = cut_at or nil,
    refunded = refunded,
    left = left,
    gaps = gaps,
    leased_until = leased_until or nil,
    capacity = capacity,
  }
end

--- Writes a note. Its lifetime ends when no decision that it concerns can be settled any more, be it one of the limit
--- before a change, which took longer to fill.
function notes.save(key, note, limit)
  if not note.cut_at and #note.gaps == 0 and not note.leased_until then return end
  local lasts = 2 * limit.window
  if limit.quota > 0 and limit.algorithm ~= 'fixed_window' then
    lasts = math.max(lasts, math.ceil((limit.third or limit.quota) * limit.window / limit.quota))
  end
  local left = math.max(0, redis.call('PTTL', key))
  local leased_until = note.leased_until or false
  local fields = { note.cut_at or false, note.refunded, note.left, note.gaps, leased_until, note.capacity }
  if left < lasts + 3000 then
    redis.call('SET', key, cmsgpack.pack(fields), 'PX', lifetimes.of(lasts, left))
  else
    redis.call('SET', key, cmsgpack.pack(fields), 'KEEPTTL')
  end
end

--- Adds a refund of `units` to a note. `continues`: true if earlier refunds still matter.
function notes.add_refund(note, now, units, continues)
  if units == 0 then return end
  note.refunded = math.min(9007199254740991, continues and note.refunded + units or units)
  note.cut_at = now
end

--- How many of a decision's own units certainly still count, after the refunds in the note.
function notes.own_units_left(receipt, note)
  if not note.cut_at or receipt.charged_at > note.cut_at then return receipt.cost end
  return math.max(0, receipt.cost - note.refunded)
end

return notes
