--[[
  Reads or replaces the schedules of deferred messages, which are stored beside their queue. A schedule is a text that
  begins with a token of 12 characters; a schedule that was only opened consists of its token. The process that replaces
  it does the arithmetic.

  KEYS[1]   the clock of the queue: see queues.clock
  KEYS[2]   the clock of the schedules
  KEYS[3..] one schedule for each limit
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  'look': only read. 'open': give those that do not exist a token. 'write': replace all, if each still has the
           expected token
  ARGV[3…] open: a token. write: for each schedule the expected token, the new text, its lifetime in ms

  Moments in schedules are by a clock that never falls, as those of the queue: when the server's clock is set back,
  waiting messages keep their moments, and a schedule must not end later for it. The clock of the queue is forgotten
  with its last message, but a schedule may live longer: so this clock is stored apart, as long as the schedules live.

  Returns now, 1 if it has replaced them, else 0, the ms by which now is ahead of the server's clock, and the texts as
  they then stand ('': none)
]]
local queues = require 'waiting.queue.queues'

local what = ARGV[2]
local schedules = { unpack(KEYS, 3) }
local own = queues.clock({ clock = KEYS[2] }, ARGV[1])
local ahead = math.max(own.ahead, queues.clock({ clock = KEYS[1] }, ARGV[1]).ahead)
local now = own.now - own.ahead + ahead
-- An opened schedule is replaced within the timeout of the request that opened it, or never.
local OPEN_MS = 10000

local texts = redis.call('MGET', unpack(schedules))
local done, lives = 0, 0
if what == 'open' then
  for i, key in ipairs(schedules) do
    if not texts[i] then
      lives = OPEN_MS
      texts[i] = ARGV[3]
      redis.call('SET', key, ARGV[3], 'PX', OPEN_MS)
    end
  end
elseif what == 'write' then
  local fresh, repeated = true, true
  for i = 1, #schedules do
    local token = texts[i] and string.sub(texts[i], 1, 12) or ''
    local at = 3 * i
    if token ~= ARGV[at] then fresh = false end
    -- The client has sent this very command before, and lost its connection before the answer.
    if token ~= string.sub(ARGV[at + 1], 1, 12) then repeated = false end
  end
  if fresh then
    for i, key in ipairs(schedules) do
      texts[i] = ARGV[3 * i + 1]
      redis.call('SET', key, texts[i], 'PX', ARGV[3 * i + 2])
      lives = math.max(lives, tonumber(ARGV[3 * i + 2]))
    end
  end
  if fresh or repeated then done = 1 end
end
if lives > 0 then
  lives = math.max(lives, redis.call('PTTL', KEYS[2]))
  redis.call('SET', KEYS[2], struct.pack('>I7I7I7B', now, ahead, 0, 0), 'PX', string.format('%.0f', lives))
end
local reply = { now, done, ahead }
for i = 1, #schedules do
  reply[i + 3] = texts[i] or ''
end
return reply
