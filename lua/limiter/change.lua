--[[
  Changes what a key may spend, and wakes the requests that wait for the units that come free.

  KEYS      the state of each limit; the note of each; the sold leases of each (ZSET lease → when it was sold, ms; see
            leases.take_back); the block list of each (ZSET state key → blocked until, ms); the line in which requests
            wait for these limits together, three keys: see lines.open; the units that wait in the lines of the policy
            (see lines.note_units); of strike two more: see strikes.count
  ARGV[1]   now, ms; '' for the server's clock
  ARGV[2]   the change:
              charge   spends units whether they fit or not
              refund   gives units back, at most what is spent: a log's oldest, a counter's or bucket's newest. A
                       running window continues
              settle   gives back at most so many units of what one decision spent, dated at the moment of its charge,
                       as far as they still count
              return   takes back the unspent units of a lease
              reset    deletes what was spent; blocks stay
              block    denies the key for so many ms, whatever it has spent; 0 ends its block
              strike   counts so many denials of a key, under one limit, and blocks it if they are too many; nothing if
                       it is blocked
  ARGV[3]   units, or ms
  ARGV[4]   charge: in how many ms a fixed window ends that begins with it; '' for the window of the limit
            settle: the first moment that the clock has shown twice, ms, because it stepped back; '' for none. Charges
            of these moments are not settled, because they may belong to either pass. ARGV[5]: the last such moment
            return: the lease. ARGV[5]: when it was sold, ms
  ARGV[6]   what the channel of every process begins with on which it hears of its waiters
  ARGV[7]   number of limits, then for each: see limits.read; then of settle and return for each:
            charged at, cost, remaining, reset; of strike: the age of the oldest denial in ms, after, window in ms, the
            first block in ms, factor, the longest block in ms, forget in ms
  ARGV[…]   last: the last moment at which the script may act, ms

  Returns now, and nothing else, if it was too late; else nothing. charge: now, then for each limit remaining and reset
  in ms, as they are after it. strike: now, for how much longer the key is blocked,
  1 if these denials have blocked it, the denials left before the block, ms until their count begins anew.
]]
local limits = require 'limiter.limits'
local states = require 'limiter.states'
local timely = require 'redis.timely'

local now = timely.now_ms(ARGV[1])
if timely.is_late(now) then return { now } end
local verb, units = ARGV[2], tonumber(ARGV[3])
local channel = ARGV[6]
local count = tonumber(ARGV[7])
local list, receipts_at = limits.read(8, count, now)
local keys, notes = { unpack(KEYS, 1, count) }, { unpack(KEYS, count + 1, 2 * count) }
local sold, blocks = { unpack(KEYS, 2 * count + 1, 3 * count) }, { unpack(KEYS, 3 * count + 1, 4 * count) }
local line_at = 4 * count + 1
local waiting_units = KEYS[line_at + 3]

-- For how long the keys are to be blocked, ms: nil for a change that leaves blocks as they are.
local block_for, struck
if verb == 'block' then block_for = units end
if verb == 'strike' then
  struck = { now, limits.block_end(blocks[1], keys[1]) - now, 0, 0, 0 }
  if struck[2] <= 0 then
    local strikes = require 'limiter.strikes'
    local at = receipts_at
    local rule = {
      after = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]),
      for_ms = tonumber(ARGV[at + 3]), factor = tonumber(ARGV[at + 4]),
      max_ms = tonumber(ARGV[at + 5]), forget_ms = tonumber(ARGV[at + 6]),
    }
    local age, denials_key, blocks_key = tonumber(ARGV[at]), KEYS[line_at + 4], KEYS[line_at + 5]
    local block_ms, left, reset = strikes.count(units, age, rule, denials_key, blocks_key, now)
    if block_ms > 0 then block_for = block_ms end
    struck = { now, block_ms, block_for and 1 or 0, left, reset }
  end
end

if verb == 'reset' then
  local arithmetic = require 'limiter.arithmetic'
  local settlement_notes = require 'limiter.notes'
  for i = 1, count do
    local limit, is_spent = list[i], false
    local functions = arithmetic.of(limit.algorithm)
    if functions and functions.notes_resets then is_spent = states.open(limit, keys[i], now).reset() > 0 end
    -- Unspent units of a lease do not come back after this.
    redis.call('UNLINK', keys[i], sold[i])
    if is_spent then
      -- A charge in the same ms counts as made after it.
      local note = settlement_notes.open(notes[i])
      note.cut_at, note.refunded, note.left, note.gaps, note.leased_until = now - 1, 9007199254740991, 0, {}, nil
      settlement_notes.save(notes[i], note, limit)
    end
  end
elseif block_for then
  for i = 1, count do
    local blocked = blocks[i]
    if block_for == 0 then
      redis.call('ZREM', blocked, keys[i])
    else
      redis.call('ZADD', blocked, now + block_for, keys[i])
      -- A few at a time, so that no call is long. A block is kept for a second after its end, so that a clock that
      -- steps back still finds it.
      local free = redis.call('ZRANGEBYSCORE', blocked, '-inf', now - 1000, 'LIMIT', 0, 16)
      if #free > 0 then redis.call('ZREM', blocked, unpack(free)) end
      local lifetimes = require 'redis.lifetimes'
      local last = redis.call('ZRANGE', blocked, -1, -1, 'WITHSCORES')
      redis.call('PEXPIRE', blocked, lifetimes.of(last[2] - now, 0))
    end
  end
elseif not struck then
  -- A settlement changes entries of a log in place, and first repairs nothing.
  local in_place = verb == 'settle' or verb == 'return'
  local opened = {}
  for i = 1, count do
    opened[i] = states.open(list[i], keys[i], now, in_place)
  end
  local receipts = in_place and limits.read_receipts(receipts_at, count)
  if verb == 'return' then
    local leases = require 'leases.leases'
    leases.take_back(ARGV[4], units, tonumber(ARGV[5]), list, opened, notes, sold, receipts, now)
  else
    local lasts = verb == 'charge' and tonumber(ARGV[4])
    local twice_from, twice_until = tonumber(ARGV[4]), tonumber(ARGV[5])
    for i = 1, count do
      if verb == 'charge' then
        if lasts then opened[i].begin(lasts) end
        opened[i].charge(units)
      elseif verb == 'refund' then
        opened[i].refund(list[i], units, notes[i])
      else
        local charged_at = receipts[i].charged_at
        local is_doubtful = twice_from and charged_at >= twice_from and charged_at <= twice_until
        if not is_doubtful then opened[i].settle(units, receipts[i], notes[i]) end
      end
    end
  end
  for i = 1, count do opened[i].save() end
  if verb == 'charge' then
    local standing = { now }
    for i = 1, count do
      local _, remaining, reset = opened[i].look(0)
      standing[2 * i], standing[2 * i + 1] = remaining, reset
    end
    return standing
  end
end

if struck and not block_for then return struck end
if not (block_for and block_for > 0) then
  if redis.call('EXISTS', KEYS[line_at]) == 1 then
    local line_capacity = require 'limiter.line_capacity'
    line_capacity.wake(line_at, channel, waiting_units, list, keys, blocks, now)
  end
end
return struck
