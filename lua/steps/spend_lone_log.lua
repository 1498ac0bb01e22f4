--[[
  The short way of a request that comes alone and is admitted, where nothing of its log has expired: see steps/decide_lone. It reads the first two entries
  and the last one at once, if they are equally long: see log_pack. Reads what steps/open_one gives.
]]
-- @include steps/is_lone
if lone then
  local key = KEYS[3]
  local head = redis.pcall('LRANGE', key, '0', '1')
  local first, second = head[1], head[2]
  if second then
    local last = call('LINDEX', key, '-1')
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
        total = total + 1
        local remaining = quota - (total - gone)
        if newest <= now and now - oldest < window and remaining >= 0 and total <= largest then
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
          return { now, remaining, window }
        end
      end
    end
  end
end
