--[[
  Tells those who wait, each on the channel of its process, one word for a new wait: -1 the rate has become too small for it, -2 the
  limiter is no more, -3 ask again.
]]
local function rate_tell(waiting, word, channel)
  for _, waiter in ipairs(waiting) do
    local process, number = string.match(waiter.id, '^(.*)/(.*)$')
    local ear = channel .. process
    redis.call('PUBLISH', ear, number .. ':' .. word)
  end
end
