--[[
  Decides a batch under one limit whose state is a row: what consume does in general, without the detours that several limits and
  logs need. Most traffic comes this way, and an instruction here is paid for by every request: hence no function that is not
  needed, and no array that can be spared. A script that ends in it says whether its limit is `shaped` (delays what it admits), and
  gives the step that measures.

  KEYS, ARGV  as of steps/open_batch
  Returns     what consume returns
]]
-- @include now_ms
-- @include steps/open_batch
local pack, read = struct.pack, struct.unpack
local count = #KEYS

-- MGET answers nil for a key of another type as for none at all.
local values = call('MGET', unpack(KEYS, 2))
local missing
for i = 2, count do
  if not values[i - 1] then
    missing = missing or {}
    missing[#missing + 1] = KEYS[i]
  end
end
local strange = missing and call('EXISTS', unpack(missing)) > 0

-- What is to be written: keys and rows in turn, the moments at which the keys may go, and the places of the keys, of which some
-- stand in the batch twice.
local writes, expire_at, written, place = {}, {}, 0, {}
for i = 2, count do
  local key = KEYS[i]
  local slot = place[key]
  local value = slot and writes[2 * slot] or values[i - 1]
  local failure, at
  local x, y = 0, 0
  if value then
    if #value == 24 then at, x, y = read('<ddd', value) end
    -- Whole ms since the epoch and what is not below zero: hardly any other text of this length reads as that.
    if not at or at % 1 ~= 0 or at > 9007199254740992 or at < -9007199254740992 or not (x >= 0 and y >= 0) then
      failure = 'WRONGTYPE the key holds a value that is not a limit\'s'
    end
  elseif strange then
    local kind = call('TYPE', key).ok
    if kind ~= 'none' then failure = 'WRONGTYPE the key holds a ' .. kind end
  end
  if failure then
    size = size + 1
    out[size] = failure
  else
    local cost = one_cost or tonumber(ARGV[5 + i])
    local blocked_until = some_blocked and tonumber(call('ZSCORE', KEYS[1], key) or 0) or 0
    local blocked = blocked_until > now
    local retry, remaining, reset, delay, next_at, next_x, next_y
    repeat
      -- @here
      -- A block spends nothing: what would be allowed is told as it stands.
      local again = blocked and retry == 0 and cost > 0
      if again then cost = 0 end
    until not again
    if spending and next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
      if not slot then
        written = written + 1
        slot = written
        place[key] = slot
        writes[2 * slot - 1] = key
      end
      writes[2 * slot] = pack('<ddd', next_at, next_x, next_y)
      -- @include steps/lifetime
      expire_at[slot] = text
    end
    -- @include steps/tell
  end
end

-- One MSET and a PEXPIREAT each cost less than as many SET with a lifetime; but for one alone.
if written == 1 then
  call('SET', writes[1], writes[2], 'PXAT', expire_at[1])
elseif written > 0 then
  call('MSET', unpack(writes))
  for slot = 1, written do call('PEXPIREAT', writes[2 * slot - 1], expire_at[slot]) end
end
if quota > 9007199254740928 then
  -- @include steps/spell
end
return out
