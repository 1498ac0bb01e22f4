--[[
  Changes what a key may spend, wakes the requests that wait for the units that come free, and tells other processes.

  KEYS      the state of each limit; the note of each; the sold leases of each (ZSET lease → when it was sold, ms; see
            return_lease); the block list of each (ZSET state key → blocked until, ms); the line in which requests wait
            for these limits together, three keys: see line_open; the units that wait in the lines of the policy (see
            line_note_units); of strike two more: see strike
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
  ARGV[4]   settle: the first moment that the clock has shown twice, ms, because it stepped back; '' for none. Charges
            of these moments are not settled, because they may belong to either pass. ARGV[5]: the last such moment
            return: the lease. ARGV[5]: when it was sold, ms
  ARGV[6]   what the channel of every process begins with on which it hears of its waiters
  ARGV[7]   the channel on which changes are announced; ARGV[8]: the message, '' for none
  ARGV[9]   number of limits, then for each: algorithm, quota, window in ms, burst; then of settle and return for each:
            charged at, cost, remaining, reset; of strike: the age of the oldest denial in ms, after, window in ms, the
            first block in ms, factor, the longest block in ms, forget in ms
  ARGV[…]   last: the last moment at which the script may act, ms

  Returns now, and nothing else, if it was too late; an error of the first key that holds something else, before
  anything changed; the text of an error if only the message was refused; else nothing. strike: now, for how much longer
  the key is blocked, 1 if these denials have blocked it, the denials left before the block, ms until their count begins
  anew; then that text, if there is one.
]]
local clock = ARGV[1]
local now = now_ms(clock)
if is_late(now) then return { now } end
local verb, units = ARGV[2], tonumber(ARGV[3])
local channel, announcements, message = ARGV[6], ARGV[7], ARGV[8]
local count = tonumber(ARGV[9])
local limits, receipts_at = read_limits(10, count, now)
local expires_at = expiry(clock, now)
local keys, notes = { unpack(KEYS, 1, count) }, { unpack(KEYS, count + 1, 2 * count) }
local sold, blocks = { unpack(KEYS, 2 * count + 1, 3 * count) }, { unpack(KEYS, 3 * count + 1, 4 * count) }
local line_at = 4 * count + 1
local waiting_units = KEYS[line_at + 3]
-- For how long the keys are to be blocked, ms: nil for a change that leaves blocks as they are.
local block_for, struck
if verb == 'block' then block_for = units end
if verb == 'strike' then
  struck = { now, block_end(blocks[1], keys[1]) - now, 0, 0, 0 }
  if struck[2] <= 0 then
    local at = receipts_at
    local rule = {
      after = tonumber(ARGV[at + 1]), window = tonumber(ARGV[at + 2]), for_ms = tonumber(ARGV[at + 3]), factor = tonumber(ARGV[at + 4]),
      max_ms = tonumber(ARGV[at + 5]), forget_ms = tonumber(ARGV[at + 6])
    }
    local failure, block_ms, left, reset = strike(units, tonumber(ARGV[at]), rule, KEYS[line_at + 4], KEYS[line_at + 5], now, expires_at)
    if failure then return redis.error_reply(failure) end
    if block_ms > 0 then block_for = block_ms end
    struck = { now, block_ms, block_for and 1 or 0, left, reset }
  end
end

if verb == 'reset' then
  for i = 1, count do
    local limit, spent = limits[i], false
    if functions_of(limit.algorithm).notes_resets then
      local state = open_state(limit, keys[i], now, expires_at)
      spent = not state.err and state.reset() > 0
    end
    -- Unspent units of a lease do not come back after this.
    redis.call('UNLINK', keys[i], sold[i])
    if spent then
      -- A charge in the same ms counts as made after it.
      local note = refund_note_open(notes[i])
      note.cut_at, note.refunded, note.left, note.gaps, note.leased_until = now - 1, 9007199254740991, 0, {}, nil
      refund_note_save(notes[i], note, limit, expires_at)
    end
  end
elseif block_for then
  for i = 1, count do
    local list = blocks[i]
    if block_for == 0 then
      redis.call('ZREM', list, keys[i])
    else
      redis.call('ZADD', list, now + block_for, keys[i])
      -- A few at a time, so that no call is long. A block is kept for a second after its end, so that a clock that
      -- steps back still finds it.
      local free = redis.call('ZRANGEBYSCORE', list, '-inf', now - 1000, 'LIMIT', 0, 16)
      if #free > 0 then redis.call('ZREM', list, unpack(free)) end
      local last = redis.call('ZRANGE', list, -1, -1, 'WITHSCORES')
      redis.call('PEXPIREAT', list, expires_at(last[2] - now))
    end
  end
elseif not struck then
  -- A settlement changes entries of a log in place, and first repairs nothing.
  local in_place = verb == 'settle' or verb == 'return'
  local states = {}
  for i = 1, count do
    states[i] = open_state(limits[i], keys[i], now, expires_at, in_place)
    if states[i].err then return redis.error_reply(states[i].err) end
  end
  local receipts = in_place and read_receipts(receipts_at, count)
  if verb == 'return' then
    return_lease(ARGV[4], units, tonumber(ARGV[5]), limits, states, notes, sold, receipts, now)
  else
    local twice_from, twice_until = tonumber(ARGV[4]), tonumber(ARGV[5])
    for i = 1, count do
      if verb == 'charge' then
        states[i].charge(units)
      elseif verb == 'refund' then
        states[i].refund(limits[i], units, notes[i])
      else
        local charged_at = receipts[i].charged_at
        local doubtful = twice_from and charged_at >= twice_from and charged_at <= twice_until
        if not doubtful then states[i].settle(units, receipts[i], notes[i]) end
      end
    end
  end
  for i = 1, count do states[i].save() end
end

if struck and not block_for then return struck end
if verb ~= 'charge' and not (block_for and block_for > 0) then
  if redis.call('EXISTS', KEYS[line_at]) == 1 then
    wake_waiters(line_at, channel, waiting_units, limits, keys, blocks, now, clock)
  end
end
if message ~= '' then
  -- Without permission for the channel, the change is made all the same.
  local told = redis.pcall('PUBLISH', announcements, message)
  if type(told) == 'table' then
    if not struck then return told.err end
    struck[6] = told.err
  end
end
return struck
