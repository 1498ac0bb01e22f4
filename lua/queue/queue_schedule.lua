--[[
  Reads or replaces the schedules of deferred messages, which are stored beside their queue. A schedule is a text that begins with a token of
  12 characters; a schedule that was only opened consists of its token. The process that replaces it does the arithmetic.

  KEYS     one schedule for each limit
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  'look': only read. 'open': give those that do not exist a token. 'write': replace all, if each still has the expected token
  ARGV[3…] open: a token. write: for each schedule the expected token, the new text, its lifetime in ms

  Returns now, 1 if it has replaced them, else 0, and the texts as they then stand ('': none)
]]
-- @include now_ms
local now = now_ms(ARGV[1])
local what = ARGV[2]
-- An opened schedule is replaced within the timeout of the request that opened it, or never.
local OPEN_MS = 10000

local texts = redis.call('MGET', unpack(KEYS))
local done = 0
if what == 'open' then
  for i, key in ipairs(KEYS) do
    if not texts[i] then
      texts[i] = ARGV[3]
      redis.call('SET', key, ARGV[3], 'PX', OPEN_MS)
    end
  end
elseif what == 'write' then
  local fresh, repeated = true, true
  for i = 1, #KEYS do
    local token = texts[i] and string.sub(texts[i], 1, 12) or ''
    local at = 3 * i
    if token ~= ARGV[at] then fresh = false end
    -- The client has sent this very command before, and lost its connection before the answer.
    if token ~= string.sub(ARGV[at + 1], 1, 12) then repeated = false end
  end
  if fresh then
    for i, key in ipairs(KEYS) do
      texts[i] = ARGV[3 * i + 1]
      redis.call('SET', key, texts[i], 'PX', ARGV[3 * i + 2])
    end
  end
  if fresh or repeated then done = 1 end
end
local reply = { now, done }
for i = 1, #KEYS do
  reply[i + 2] = texts[i] or ''
end
return reply
