--[[
  Puts by what is free for those who wait, in their order, until the first for whom it is not enough, and tells each on the channel of
  its process: "number id". What is offered is out, but only for so long: whoever does not take it goes back to its place and is passed
  over until it is heard of again. Parties that have been silent are dropped from the line; those that live after all ask again, with
  the place that they had. `asking` is not told: it asks at this moment. Who is next in line then is told to look when the offer ends.
]]
-- @include semaphore_open
-- @include semaphore_tell
local SEMAPHORE_OFFER_MS = 500

local function semaphore_offer(s, channel, asking)
  if not s.crowded then return end
  local to
  while s.used < s.permits do
    local id = redis.call('ZRANGE', s.line, '0', '0')[1]
    if not id then break end
    local permits, party = semaphore_fact(redis.call('HGET', s.facts, id))
    local seen = party and tonumber(redis.call('ZSCORE', s.parties, party) or nil)
    s.left = true
    if not seen or seen <= s.now then
      redis.call('ZREM', s.line, id)
      redis.call('HDEL', s.facts, id)
      -- What is not known any more asks again.
      if party then redis.call('ZREM', s.parties, party) end
    elseif permits > s.permits then
      redis.call('ZREM', s.line, id)
      redis.call('HDEL', s.facts, id)
      semaphore_tell(channel, party, id)
    elseif permits > s.permits - s.used then
      break
    else
      redis.call('ZREM', s.line, id)
      redis.call('ZADD', s.offers, s.now + SEMAPHORE_OFFER_MS, id)
      s.used = s.used + permits
      if id ~= asking then
        semaphore_tell(channel, party, id)
        to = party
      end
    end
  end
  if not to then return end
  local _, watcher = semaphore_fact(redis.call('HGET', s.facts, redis.call('ZRANGE', s.line, '0', '0')[1] or ''))
  if watcher and watcher ~= to then semaphore_tell(channel, watcher, '!') end
end
