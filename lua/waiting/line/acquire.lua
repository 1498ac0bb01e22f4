--[[
  An ask of a waiting line for several limits under one name and key: takes units where they are free, joins and leaves
  the line, collects grants. All limits or none.

  KEYS[1..3]  the line: see line_open
  KEYS[4]     record of the member; KEYS[5] of the member that it replaces, or the same
  KEYS[6]     the units that wait in all lines of the policy: see line_note_units
  KEYS[7..]   the state of each limit, then the block list of each, then its note
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2]     what the channel of every process begins with
  ARGV[3]     number of limits, then for each: algorithm, quota, window in ms, burst
  ARGV[...]   the ask: see line_ask
  last ARGV   the last moment at which this may be carried out, ms: its process has given the ask up then

  Returns what line_ask returns, or a list of now alone if it came too late; for each grant, remaining and reset of each
  limit.
]]
local clock = ARGV[1]
local channel = ARGV[2]
local count = tonumber(ARGV[3])
local now = now_ms(clock)
if is_late(now) then return { now } end
local limits, ask_at = read_limits(4, count, now)
local states = { unpack(KEYS, 7, 6 + count) }
local blocks = { unpack(KEYS, 7 + count, 6 + 2 * count) }
local notes = { unpack(KEYS, 7 + 2 * count) }

local line = line_open(KEYS[1], KEYS[2], KEYS[3], channel)
if line.err then return redis.error_reply(line.err) end
local capacity = limit_capacity(limits, states, blocks, notes, now, clock)
if capacity.err then return redis.error_reply(capacity.err) end
local stood = line.units > 0
local reply = line_ask(line, KEYS[4], KEYS[5], ask_at, capacity, LINE_LIFE_MS)
capacity.save()
if stood or line.units > 0 then line_note_units(line, KEYS[6], states) end
return reply
