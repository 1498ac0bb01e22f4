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
