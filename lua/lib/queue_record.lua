--[[
  Reads the head of a record: version (1 character), sequence number (20 digits), priority (1), end of the ttl in ms or 0 (15), greatest number of
  attempts (7). Only the process reads the rest. The head of a record of another version cannot be read: the message is delivered once more, and the next
  fetch makes it a dead letter.
]]
local QUEUE_VERSION = '1'
local function queue_readable(text)
  return string.sub(text, 1, 1) == QUEUE_VERSION
end
local function queue_record(text)
  if not queue_readable(text) then return { seq = '', priority = 0, ttl = 0, max = math.huge } end
  return {
    seq = string.sub(text, 2, 21),
    priority = tonumber(string.sub(text, 22, 22)),
    ttl = tonumber(string.sub(text, 23, 37)),
    max = tonumber(string.sub(text, 38, 44)),
  }
end

--[[ Whether the ttl of a message has ended. ]]
local function queue_outlived(text, now)
  local ttl = queue_record(text).ttl
  return ttl > 0 and ttl <= now
end

--[[
  Reads the texts of these ids from a hash, in order, until they exceed a megabyte together; at least one. So a call stays short however large
  messages are. Returns the texts (false: none) and their number.
]]
local QUEUE_BYTES = 1000000
local function queue_texts(key, ids)
  local texts, count, bytes, longest, step = {}, 0, 0, 1, 1
  while count < #ids do
    for _, text in ipairs(redis.call('HMGET', key, unpack(ids, count + 1, math.min(#ids, count + step)))) do
      local length = text and #text or 0
      if count > 0 and bytes + length > QUEUE_BYTES then return texts, count end
      count = count + 1
      texts[count] = text
      bytes = bytes + length
      longest = math.max(longest, length)
    end
    -- Small texts are read many at a time, and large ones hardly in vain.
    step = math.max(1, math.min(step * 4, math.floor((QUEUE_BYTES - bytes) / longest)))
  end
  return texts, count
end
