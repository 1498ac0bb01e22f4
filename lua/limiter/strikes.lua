-- Denials that block a key.
local states = require 'limiter.states'
local strikes = {}

--[[
  Counts denials of a key that is not blocked, and tells whether they block it: src/limiter/block-rule.ts is the same in
  the process.

  count        denials; age: of the oldest of them, ms
  rule         after, window, for_ms, factor, max_ms, forget_ms: see BlockRule
  denials_key  counts denials since the last block, within a window
  blocks_key   counts blocks; its window begins anew with each, so that the age of the window is the age of the last
               block

  Returns
    the length of the block that begins, ms; 0 if none does
    the denials left before the block
    ms until the count begins anew
]]
function strikes.count(count, age, rule, denials_key, blocks_key, now)
  local most = 1000000000
  -- The last block is remembered for as long as denials from before its end may be reported.
  local kept = rule.max_ms + math.max(rule.forget_ms, rule.window)
  local of_denials = { algorithm = 'fixed_window', quota = rule.after, window = rule.window }
  local of_blocks = { algorithm = 'fixed_window', quota = most, window = kept }
  local denials = states.open(of_denials, denials_key, now)
  local blocks = states.open(of_blocks, blocks_key, now)
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
    return 0, left - count, denials.reset()
  end
  number = (number > 0 and ended <= rule.forget_ms) and number + 1 or 1
  redis.call('UNLINK', denials_key, blocks_key)
  blocks = states.open(of_blocks, blocks_key, now)
  blocks.charge(number)
  blocks.save()
  return length_of(number), 0, 0
end

return strikes
