--[[
  The fast path for one request under a sliding window, as steps/decide_lone is for rows: if no entry of its log has expired and none is of a lease, and all
  have totals of one length (see log_pack). Reads what steps/open_one gives.
]]
if lone then
  local key = KEYS[3]
  local head = redis.pcall('LRANGE', key, '0', '1')
  local first, second = head[1], head[2]
  if second then
    local last = call('LINDEX', key, '-1')
    local length = #last
    local entry, largest
    if length == 8 then
      entry, largest = '>I6I2', 65535
    elseif length == 9 then
      entry, largest = '>I6I3', 16777215
    elseif length == 10 then
      entry, largest = '>I6I4', 4294967295
    end
    if entry and #first == length and #second == length then
      local read, left = struct.unpack, call('PTTL', key)
      local _, gone = read(entry, first)
      local oldest = read(entry, second)
      local newest, total = read(entry, last)
      total = total + 1
      local most, remaining, reset = quota, quota - (total - gone), window
      if newest <= now and now - oldest < window and remaining >= 0 and total <= largest then
        local spent = struct.pack(entry, now, total)
        if newest == now then
          call('LSET', key, '-1', spent)
        else
          call('RPUSH', key, spent)
        end
        local server_now, padding = now, 3000
        -- @include steps/lifetime
        if expire_at then call('PEXPIREAT', key, expire_at) end
        -- @include steps/answer_lone
      end
    end
  end
end
