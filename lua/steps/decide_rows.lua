--[[
  Decides a batch under one limit whose state is a row: what consume does in general, without the detours that several limits and
  logs need. Most traffic comes this way, and an instruction here is paid for by every request: hence no function that is not
  needed, and no array that can be spared. A script that ends in it says whether its limit is `shaped` (delays what it admits), and
  gives the step that measures.

  KEYS     the block list of the limit (ZSET member → blocked until, ms); then the key of each request
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  until when this may be carried out, ms; '' for whenever it comes
  ARGV[3]  1 to spend, 0 only to look
  ARGV[4]  the limit: quota, window in ms, burst
  ARGV[7…] the cost of each request, one for all, or none where all cost 1

  Returns what consume returns.
]]
-- @include now_ms
local call, pack, read = redis.call, struct.pack, struct.unpack
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
local spending = ARGV[3] == '1'
if valid_until and now > valid_until then return { now } end
local quota, window, burst = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local one_cost = #ARGV < 8 and tonumber(ARGV[7] or 1)
local count = #KEYS
local some_blocked = call('EXISTS', KEYS[1]) > 0

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

-- A key may go a little after its state is as if never used: no decision depends on expiry. A given clock may stand still while the
-- server's does not. In steps of four seconds, so that keys share texts: making one costs more than the command.
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}

-- What is to be written: keys and rows in turn, the moments at which the keys may go, and the places of the keys, of which some
-- stand in the batch twice.
local writes, expire_at, written, place = {}, {}, 0, {}
local out, size = { now }, 1
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
      local moment = server_now + reset + padding + 3999
      moment = moment - moment % 4000
      local text = texts[moment]
      if not text then
        text = string.format('%.0f', moment)
        texts[moment] = text
      end
      expire_at[slot] = text
    end
    if retry == 0 and not blocked then
      out[size + 1] = remaining
      out[size + 2] = reset
      size = size + 2
      if shaped then
        size = size + 1
        out[size] = delay
      end
    else
      if blocked and retry >= 0 then retry = -2 - math.max(retry, blocked_until - now) end
      out[size + 1] = -1 - remaining
      out[size + 2] = reset
      out[size + 3] = retry
      size = size + 3
    end
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
