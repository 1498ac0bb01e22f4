--[[
  Sets `left` to what is left when `cost` is spent from the log of `key` now, and spends it: where it fits and nothing of the log has expired.
  Else nothing is written, `left` stays nil, and steps/open_log goes on from `head`, the first entries, which this sets. Makes no table and no function.
  Where entries are equally long, see log_pack, their format is known at once. Reads what steps/open_one gives.
]]
-- Alone its log is mostly longer, and then the third entry says nothing.
head = redis.pcall('LRANGE', key, '0', lone and '1' or '2')
local first, second = head[1], head[2]
if second then
  local last = (lone or head[3]) and call('LINDEX', key, '-1') or second
  local length = #last
  if #first == length and #second == length then
    local entry, largest
    if length == 8 then
      entry, largest = '>I6I2', 65535
    elseif length == 9 then
      entry, largest = '>I6I3', 16777215
    elseif length == 10 then
      entry, largest = '>I6I4', 4294967295
    end
    if entry then
      local _, gone = struct.unpack(entry, first)
      local oldest = struct.unpack(entry, second)
      local newest, total = struct.unpack(entry, last)
      total = total + cost
      local rest = quota - (total - gone)
      if newest <= now and now - oldest < window and rest >= 0 and total <= largest then
        left = rest
        local spent = struct.pack(entry, now, total)
        if newest == now then
          call('LSET', key, '-1', spent)
        else
          call('RPUSH', key, spent)
        end
        local ends, reset = newest + window, window
        -- @include steps/outlives
        if not outlives then
          local moment = now + reset + 4999
          call('PEXPIREAT', key, moment - moment % 4000)
        end
      end
    end
  end
end
