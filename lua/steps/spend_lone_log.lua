--[[
  The fast path for a request that comes alone and is admitted, if no entry of its log has expired: see steps/decide_lone. It unpacks the first two entries
  and the last one together, if they are equally long: see log_pack. The first entry tells when the key expires: see log_open. Reads what steps/open_one gives.
]]
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
        local read = struct.unpack
        local expires, gone = read(entry, first)
        local oldest = read(entry, second)
        local newest, total = read(entry, last)
        local left = call('PTTL', key)
        local now = expires - left
        total = total + 1
        local most, remaining = quota, quota - (total - gone)
        if
          left > 0
          and newest <= now
          and now <= valid_until
          and now > valid_until - 65536
          and now - oldest < window
          and remaining >= 0
          and total <= largest
        then
          local spent = struct.pack(entry, now, total)
          if newest == now then
            call('LSET', key, '-1', spent)
          else
            call('RPUSH', key, spent)
          end
          if expires < now + window + 1000 then
            -- A sixteenth longer, so that this is not due with each decision of a key that is asked for every few seconds.
            expires = now + window + math.max(4999, window / 16)
            expires = expires - expires % 4000
            call('LSET', key, '0', struct.pack(entry, expires, gone))
            call('PEXPIREAT', key, expires)
          end
          local reset = window
          -- @include steps/answer_lone
        end
      end
    end
  end
end
