--[[
  Ends the script with the answer for a request that came alone and is admitted: one number, which makes the round trip a tenth shorter than a list,
  (spent x 2^23 + reset) x 2^14 + how many ms before valid_until it was decided; or a list, if it does not fit. Reads valid_until, now, most, remaining and reset.
]]
local early, spent = valid_until - now, most - remaining
if early < 16384 and reset < 8388608 and spent < 32768 then return (spent * 8388608 + reset) * 16384 + early end
return { now, remaining, reset }
