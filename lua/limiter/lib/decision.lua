--[[
  The pieces of which the scripts consist that decide: consume_row, consume_log and consume. They stand inline, because
  a call of a function would cost as much as its work. The comment of each names the variables that it reads, and those
  that it gives or sets.
]]

--[[
  Reads until when this may be carried out, ms; '' only to look, whenever it comes. A clock that is given follows behind
  it: `until@now`, ms. Ends the script, which answers now alone, if it would spend and came too late. Reads ARGV[1].
  Gives call, clock ('' for the server's), now, valid_until and spending.
]]
function moment()
  local call, clock, now = redis.call, '', nil
  local valid_until = tonumber(ARGV[1])
  local spending = valid_until ~= nil
  if not spending and ARGV[1] ~= '' then
    local ends, given = string.match(ARGV[1], '^(%d*)@(.*)$')
    valid_until, clock, now = tonumber(ends), given, tonumber(given)
    spending = valid_until ~= nil
  end
  if not now then
    local time = call('TIME')
    local ms = time[2] / 1000
    now = time[1] * 1000 + ms - ms % 1
  end
  if spending and now > valid_until then return { now } end
end

--[[
  What a script for one limit reads before it decides, with KEYS and ARGV as consume_row has them. Reads has_burst.
  Gives what moment gives, quota, window, burst, costs_at (the place of the first cost), blocks_or_waiters (whether a
  key is blocked or a request waits), and `lone` (whether the fast path may be taken: one request that costs 1, by the
  server's clock, and neither).
]]
function arguments()
  -- @inline decision.moment
  local quota, window = tonumber(ARGV[2]), tonumber(ARGV[3])
  local burst, costs_at = quota, 4
  if has_burst then burst, costs_at = tonumber(ARGV[4]), 5 end
  local blocks_or_waiters = call('EXISTS', KEYS[1], KEYS[2]) > 0
  local lone = spending and clock == '' and not blocks_or_waiters and not KEYS[4] and not ARGV[costs_at]
end

--[[ Gives pack and read, `out` and its size for add_verdict, and what lifetimes gives. Reads clock and now; uses
now_ms. ]]
function answer()
  local pack, read = struct.pack, struct.unpack
  -- @inline decision.lifetimes
  local out, size = { now }, 1
end

--[[
  Gives server_now and padding for lifetime, and `second`, the beginning of the present second. Reads clock and now;
  uses now_ms.

  A key may go some seconds after its state is as if never used: no decision depends on expiry. The padding is more than
  a second, in which a lifetime is not asked for again (see spend_row), and what the clocks of two nodes of a cluster
  may differ by. A given clock may stand still while the server's does not, hence the longer padding.
]]
function lifetimes()
  local server_now, padding = now, 3000
  if clock ~= '' then
    server_now, padding = now_ms(''), 5000
  end
  local second = server_now - server_now % 1000
end

--[[
  Gives `expire_at`, the moment at which a key may go whose state matters for `reset` ms more, or false if `left`, its
  present lifetime in ms (PTTL), suffices. Without `left` it is set in any case. No decision depends on a lifetime:
  EXPIRE, PERSIST, RESTORE and MIGRATE change it. Reads what lifetimes gives.
]]
function lifetime()
  local expire_at = false
  if not left or left < reset + padding then
    -- A key that is used again lives a quarter longer, so that this is not due each time: what a bucket owes grows with
    -- each decision.
    local longer = left and math.min(reset / 4, 3600000) or 0
    expire_at = math.floor(server_now + reset + longer + padding + 1000)
  end
end

--[[
  Ends the script with an error that contains the time, before anything is written, if now is outside the calendar
  window that the process has computed: from `start` on, `length` ms. The process then asks again.
]]
local function check_calendar_window(now, start, length)
  if now < start or now >= start + length then error('CALENDAR ' .. string.format('%.0f', now)) end
end

--[[
  Reads `value`, a row of five doubles, into at, x and y, and what is remembered of the lifetime of its key: expires, a
  moment, as it was in the second `asked_in` (see spend_row; 0: nothing). Sets `failure` if the key holds something
  else; without a value it checks the type of `key` only if `may_be_foreign` is true. Uses call and read.
]]
function read_row()
  if value then
    if #value == 40 then at, x, y, expires, asked_in = read('<ddddd', value) end
    -- Whole ms since the epoch and two numbers ≥ 0: almost no other text of this length reads like that.
    if not at or at % 1 ~= 0 or at > 9007199254740992 or at < -9007199254740992 or not (x >= 0 and y >= 0) then
      failure = 'WRONGTYPE the key holds a value that is not a limit\'s'
    end
  elseif may_be_foreign then
    local kind = call('TYPE', key).ok
    if kind ~= 'none' then failure = 'WRONGTYPE the key holds a ' .. kind end
  end
end

--[[
  Sets `ahead` to the units of the waiters in the line of `line_name`, a member of the ZSET `waiting` (see
  line_note_units), or to 0. A mark lasts for 6 s at most, so a later one is from before the server's clock was set
  back. Reads blocks_or_waiters and server_now; uses call.
]]
function read_ahead()
  local ahead = 0
  if blocks_or_waiters then
    local ends_at = call('ZSCORE', waiting, line_name)
    local lives_ms = ends_at and ends_at - server_now or 0
    if lives_ms > 0 and lives_ms < 6001 then ahead = -tonumber(call('ZSCORE', waiting, line_name .. ' units') or 0) end
  end
end

--[[
  Changes the row of `key` from at, x, y to next_at, next_x, next_y, if they differ. The row has the place `slot` in
  `values`, and write_rows writes it at the end. A row from the future is from before the server's clock was set back,
  or from a server whose clock is ahead: it is moved to now, by a request that is refused, too.

  In a batch (`together`) the lifetime of a key is asked for once in a second, because PTTL costs as much as a tenth of
  a decision: until then it is what the row says. So a key that lost its lifetime gets one with the next request that
  comes alone, or in a later second.
]]
function spend_row()
  if next_at and (next_x ~= x or next_at ~= at or next_y ~= y) then
    place[key] = slot
    local left = expires - server_now
    if not at or at > now then
      left = false
    elseif not together or asked_in ~= second then
      left = call('PTTL', key)
    end
    -- @inline decision.lifetime
    if expire_at or expire_ats[slot] == nil then expire_ats[slot] = expire_at end
    values[slot] = pack('<ddddd', next_at, next_x, next_y, expire_at or server_now + left, second)
  elseif at and retry ~= 0 and expire_ats[slot] == nil then
    -- Under a slower limit the state matters for longer than the key was to live.
    local left = call('PTTL', key)
    if left < reset then
      -- @inline decision.lifetime
      call('PEXPIREAT', key, expire_at)
    end
  end
end

--[[
  Writes those of `values` that have changed under their `keys`, which follow `shared` others, with the lifetimes
  `expire_ats`: nil if nothing has changed, false if the key keeps its lifetime, which costs half as much. Uses call.
]]
function write_rows()
  for slot = 1, #values do
    local expire_at = expire_ats[slot]
    if expire_at then
      call('SET', keys[shared + slot], values[slot], 'PXAT', expire_at)
    elseif expire_at == false then
      call('SETRANGE', keys[shared + slot], '0', values[slot])
    end
  end
end

--[[ Appends a verdict to `out`, in the form that consume returns. Reads retry, remaining, reset, delay, blocked and
blocked_until. ]]
function add_verdict()
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

--[[
  Ends the script with the answer for a request that came alone and is admitted: one number, which makes the round trip
  a tenth shorter than a list, (spent x 2^23 + reset) x 2^14 + how many ms before valid_until it was decided; or a list,
  if it does not fit. Reads valid_until, now, most, remaining and reset.
]]
function answer_lone()
  local early, spent = valid_until - now, most - remaining
  if early < 16384 and reset < 8388608 and spent < 32768 then return (spent * 8388608 + reset) * 16384 + early end
  return { now, remaining, reset }
end

--[[
  Replaces each number of `out` that is within 64 of 2^53 by its text. Some clients read numbers digit by digit and add
  48 on the way, so they would leave the exact integers. Only limits with such a large quota or window need this.
]]
local function large_numbers_as_text(out)
  for i = 2, #out do
    local number = out[i]
    if type(number) == 'number' and math.abs(number) > 9007199254740928 then out[i] = string.format('%.0f', number) end
  end
end
