--[[
  An ask of a waiting line for several limits under one name and key: takes units where they are free, joins and leaves
  the line, collects grants. All limits or none.

  KEYS[1..3]  the line: see lines.open
  KEYS[4]     record of the member; KEYS[5] of the member that it replaces, or the same
  KEYS[6]     the units that wait in all lines of the policy: see lines.note_units
  KEYS[7..]   the state of each limit, then the block list of each, then its note
  ARGV[1]     now, ms; '' for the server's clock
  ARGV[2]     what the channel of every process begins with
  ARGV[3]     number of limits, then for each: see limits.read
  ARGV[...]   the ask: see asks.handle

  Returns what asks.handle returns, or a list of now alone if it came too late; for each grant, remaining and reset of
  each limit.
]]
local asks = require 'waiting.line.asks'
local limits = require 'limiter.limits'
local line_capacity = require 'limiter.line_capacity'
local lines = require 'waiting.line.lines'
local timely = require 'redis.timely'

local channel = ARGV[2]
local count = tonumber(ARGV[3])
local now = timely.now_ms(ARGV[1])
local list, ask_at = limits.read(4, count, now)
local states = { unpack(KEYS, 7, 6 + count) }
local blocks = { unpack(KEYS, 7 + count, 6 + 2 * count) }
local notes = { unpack(KEYS, 7 + 2 * count) }

local line = lines.open(KEYS[1], KEYS[2], KEYS[3], channel)
if line.err then return redis.error_reply(line.err) end
local capacity = line_capacity.of(list, states, blocks, notes, now)
local stood = line.units > 0
local reply = asks.handle(line, KEYS[4], KEYS[5], ask_at, capacity)
if not reply then return { now } end
capacity.save()
if stood or line.units > 0 then lines.note_units(line, KEYS[6], states) end
return reply
