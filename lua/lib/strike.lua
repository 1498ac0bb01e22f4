--[[
  Counts denials of a key that is not blocked, and tells whether they block it: src/stores/block-rule.ts is the same in the process.

  count        denials; age: of the oldest of them, ms
  rule         after, window, for_ms, factor, max_ms, forget_ms: see BlockRule
  denials_key  counts denials since the last block, within a window
  blocks_key   counts blocks; its window begins anew with each, so that the age of the window is the age of the last block

  Returns the text of an error, if a key holds something else; else nil, and
    the length of the block that begins, ms; 0 if none does
    the denials left before the block
    ms until the count begins anew
]]
-- @include open_state
local function strike(count, age, rule, denials_key, blocks_key, now, expires_at)
  local most = 1000000000
  -- The last block is remembered for as long as denials from before its end may be reported.
  local kept = rule.max_ms + math.max(rule.forget_ms, rule.window)
  local of_denials = { algorithm = 'fixed-window', quota = rule.after, window = rule.window, burst = rule.after }
  local of_blocks = { algorithm = 'fixed-window', quota = most, window = kept, burst = most }
  local denials = open_state(of_denials, denials_key, now, expires_at)
  local blocks = open_state(of_blocks, blocks_key, now, expires_at)
  if denials.err or blocks.err then return denials.err or blocks.err end
  local function length_of(number)
    return math.min(rule.max_ms, math.floor(rule.for_ms * rule.factor ^ math.max(0, number - 1) + 0.5))
  end

  local _, remaining, block_reset = blocks.look(0)
  local number = most - remaining
  local ended = kept - block_reset - length_of(number)
  -- Denials from before the end of the last block have no part in the next, except the one that is reported now.
  if number > 0 and ended >= 0 and age > ended then count = 1 end
  local _, left = denials.look(0)
  if count < left then
    denials.charge(count)
    denials.save()
    return nil, 0, left - count, denials.reset()
  end
  number = (number > 0 and ended <= rule.forget_ms) and number + 1 or 1
  redis.call('UNLINK', denials_key, blocks_key)
  blocks = open_state(of_blocks, blocks_key, now, expires_at)
  blocks.charge(number)
  blocks.save()
  return nil, length_of(number), 0, 0
end
