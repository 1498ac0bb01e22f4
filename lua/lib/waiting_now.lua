--[[
  Those who still wait, in their order, as { turn, cost, id }: from the list in which waiter_pack wrote them, without those whose
  turn has come, which are dropped from it. Whoever books pays for one who has gone.
]]
local function waiting_now(list, now)
  local waiting = {}
  local gone = 0
  for _, packed in ipairs(redis.call('LRANGE', list, '0', '-1')) do
    local turn, cost = struct.unpack('>I6I7', packed)
    if turn <= now then
      gone = gone + 1
    else
      waiting[#waiting + 1] = { turn = turn, cost = cost, id = string.sub(packed, 14) }
    end
  end
  if gone > 0 then redis.call('LTRIM', list, gone, '-1') end
  return waiting
end
