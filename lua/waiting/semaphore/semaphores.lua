-- Semaphores.
local lines = require 'waiting.line.lines'
local timely = require 'redis.timely'
local semaphores = {}

--[[
  The table of the leases of a semaphore is a ZSET with one of two names, and one format. It is called `leases` while
  somebody waits, or nobody has asked for direct takes; it is called `direct` while it is open for them: taking a permit
  is then one short script (semaphore_take), and giving it back is a plain ZREM. The first script that needs the rest of
  the state renames it to `leases` (semaphores.read): a ZREM then finds nothing, and its sender goes through the line
  instead. Members and scores:

    id, ~id a lease, with its deadline in ms. '~': it is of one permit, was taken directly or granted to a waiter, and
    has no fact
    !extra      -1 - the permits beyond one for each lease, of all leases in the table
    !last       the newest token, in µs
    !room       only under the name `direct`: 4e15 (more than any token) + the greatest number of leases
    @sender     the newest token given to a sender of direct takes, so that a repeated call is recognized
    &address a process that has extended leases without a fact, or was granted some as a waiter, with the moment in µs:
    see semaphores.note_holder

  Held are the leases whose deadline has not passed, by their scores, and !extra. So ended leases count for nothing
  before they are removed, but for permits beyond one: whoever removes a lease also subtracts those from !extra, in the
  same script. Facts (HASH id → "permits member token") live as long as the table.

  semaphores.sweep removes up to `most` ended leases, and returns the permits that !extra is less by.

  semaphores.keep makes the table and the facts live until `ends_at`, in µs, and for at least semaphores.LIFE_MS after
  `micros`, now, and after `last`, the newest token: so tokens never start again below it, even if the clock was set
  back. Returns their lifetime in ms. It need not be called again for leases of up to a minute while the newest token is
  of the same 16.8 seconds (see semaphores.is_kept): their ends, and the time for which a call can be repeated, lie
  within that lifetime.
]]
semaphores.VERSION = '4'
semaphores.ABOVE = '100000000000000'
semaphores.SWEEP = 100
semaphores.LIFE_MS = 120000

function semaphores.sweep(leases, facts, now, most)
  local over = redis.call('ZRANGEBYSCORE', leases, '0', now, 'LIMIT', '0', most)
  if #over == 0 then return 0 end
  local extra = 0
  for _, fact in ipairs(redis.call('HMGET', facts, unpack(over))) do
    if fact then extra = extra + string.match(fact, '^%d+') - 1 end
  end
  redis.call('ZREM', leases, unpack(over))
  redis.call('HDEL', facts, unpack(over))
  if extra > 0 then
    local stored = tonumber(redis.call('ZSCORE', leases, '!extra') or nil) or -1
    redis.call('ZADD', leases, string.format('%.0f', math.min(-1, stored + extra)), '!extra')
  end
  return extra
end

function semaphores.is_kept(last, micros)
  return last and math.floor(last / 16777216) == math.floor(micros / 16777216)
end

function semaphores.keep(leases, facts, last, micros, ends_at)
  local needed = math.max(last, micros) / 1000 + semaphores.LIFE_MS
  needed = math.ceil(math.max(needed, ends_at / 1000) - micros / 1000)
  local left = redis.call('PTTL', leases)
  if left < needed then
    left = needed
    redis.call('PEXPIRE', leases, left)
  end
  redis.call('PEXPIRE', facts, left)
  return left
end

--[[
  Reads a semaphore as it is stored. `keys` are, in this order:

    config   HASH v (version of this state), permits, idle (lifetime in ms while nothing is held), and mended (the
             newest token at the last repair of the leases: see semaphores.repair_clock)
    leases   the table of the leases: see semaphores.sweep
    facts    HASH id → "permits member token" of each lease whose name does not begin with '~'
    line, asks, meta   the waiting line: see lines.open. A waiter's details are "length in ms, space, id" of the wanted
                       lease
    direct   the table of the leases, while permits are taken directly

  `initial` sets the permits if none are set. -1: sets none, and without permits the result is nil. Below that: -2 -
  permits, which apply whatever is stored. `idle` below 0: as stored. `newest_seen` is the newest token that the caller
  has seen; `stored` the configuration (permits, idle, v), if the caller has read it. Returns { err } for another
  version.
]]

function semaphores.read(keys, clock, initial, idle, newest_seen, stored)
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local s = {
    micros = micros,
    now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
    padding = clock == '' and 1000 or 5000,
    has_clock = clock ~= '',
    facts_to_write = {},
    entries_to_write = {},
    ids_to_drop = {},
  }
  s.config, s.leases, s.facts = unpack(keys, 1, 3)
  s.direct = keys[7]
  s.stored = stored or redis.call('HMGET', s.config, 'permits', 'idle', 'v')
  s.permits = tonumber(s.stored[1])
  if s.permits and s.stored[3] ~= semaphores.VERSION then
    return {
      err = 'ERR the semaphore has version ' .. (s.stored[3] or '1')
        .. ', this process expects version ' .. semaphores.VERSION
        .. ': let all processes that share it run one version of spillway',
    }
  end
  if initial < -1 then
    s.permits = -2 - initial
  elseif not s.permits then
    if initial < 0 then return nil end
    s.permits = initial
  end
  s.idle = tonumber(s.stored[2])
  if idle >= 0 then s.idle = idle end
  local kept = redis.call('ZMSCORE', s.direct, '!extra', '!last')
  if kept[2] then
    redis.call('RENAME', s.direct, s.leases)
    s.is_direct = true
  else
    kept = redis.call('ZMSCORE', s.leases, '!extra', '!last')
  end
  s.stored_last = tonumber(kept[2] or nil)
  s.last = math.max(s.stored_last or 0, newest_seen or 0)
  s.extra = math.max(0, -1 - (tonumber(kept[1] or nil) or -1))
  return s
end

--[[ Reads a fact (see semaphores.read): returns its permits, member and token. Without a fact, returns one permit, and
no member. ]]
function semaphores.parse_fact(fact)
  local permits, member, token = string.match(fact or '', '^(%d+) (%S+) (%d+)$')
  return tonumber(permits) or 1, member, token
end

--[[
  Repairs the deadlines of leases after the server's clock was set back: moves each so that the lease lasts as long as
  it had left when a lease was last written. The newest token, which is in µs and never falls, shows that the clock was
  set back. If the step is shorter than a lease, nothing is changed, because leases from before and after the step
  cannot be told apart.
]]
semaphores.BATCH = 1000

function semaphores.repair_clock(s)
  if s.last - s.micros < 1000000 or not s.stored[1] then return end
  -- While the clock is behind the newest token, each token is one more than the last: then all leases are repaired
  -- already, or newer than the step.
  if s.last - (tonumber(redis.call('HGET', s.config, 'mended') or nil) or 0) < 1000000 then return end
  local written = math.floor(s.last / 1000)
  local behind = written - s.now
  local leases = redis.call('ZRANGEBYSCORE', s.leases, written + 1, semaphores.ABOVE, 'WITHSCORES')
  if #leases > 0 and leases[#leases] - written > behind then return end
  for from = 1, #leases, semaphores.BATCH do
    local entries = {}
    for i = from, math.min(#leases, from + semaphores.BATCH - 1), 2 do
      entries[#entries + 1] = string.format('%.0f', leases[i + 1] - behind)
      entries[#entries + 1] = leases[i]
    end
    redis.call('ZADD', s.leases, unpack(entries))
  end
  redis.call('HSET', s.config, 'mended', string.format('%.0f', s.last))
end

--[[
  Reads a semaphore (see semaphores.read), removes some of the leases whose deadline has passed, and counts the others.
  Fields of the result: `used`, the number of held permits, and `extra`, how many of them are beyond one for each lease.
  Other changes of the result are written only by semaphores.save.

  semaphores.first_end returns when the first lease ends, in ms; nil without leases. If ended leases of several permits
  may remain, their permits are free a moment later.
]]
function semaphores.open(keys, clock, initial, idle, newest_seen, stored)
  local s = semaphores.read(keys, clock, initial, idle, newest_seen, stored)
  if not s or s.err then return s end
  if clock == '' then semaphores.repair_clock(s) end
  s.extra = math.max(0, s.extra - semaphores.sweep(s.leases, s.facts, s.now, semaphores.SWEEP))
  if s.extra ~= 0 and redis.call('EXISTS', s.facts) == 0 then
    -- The facts were lost, and nobody knows any more whose permits these were.
    s.extra = 0
    redis.call('ZADD', s.leases, '-1', '!extra')
  end
  s.stored_extra = s.extra
  s.used = redis.call('ZCOUNT', s.leases, s.now + 1, semaphores.ABOVE) + s.extra
  return s
end

function semaphores.first_end(s)
  if s.extra > 0 and redis.call('ZCOUNT', s.leases, '0', s.now) > 0 then return s.now + 1 end
  local first = redis.call('ZRANGEBYSCORE', s.leases, s.now + 1, semaphores.ABOVE, 'WITHSCORES', 'LIMIT', '0', '1')
  return tonumber(first[2])
end

--[[
  Returns the next fencing token of a semaphore. While its keys live, the token is greater than every earlier one, even
  if the clock is set back. It is also at least the server's time in µs and greater than the newest token that the
  caller has seen, so that tokens continue to grow if the keys are lost.
]]
function semaphores.next_token(s)
  s.last = math.max(s.last + 1, s.micros)
  s.issued = true
  return string.format('%.0f', s.last)
end

--[[
  Starts a lease now: a new one, or one that is taken over. Returns its token and its deadline. semaphores.save writes
  it, together with all other changes.
]]
function semaphores.lease(s, id, ms, permits, member)
  local token = semaphores.next_token(s)
  local deadline = s.now + ms
  local facts, entries = s.facts_to_write, s.entries_to_write
  if string.sub(id, 1, 1) == '~' then
    if not s.noted then semaphores.note_holder(s.leases, member, s.micros) end
    s.noted = true
  else
    facts[#facts + 1] = id
    facts[#facts + 1] = permits .. ' ' .. member .. ' ' .. token
  end
  entries[#entries + 1] = string.format('%.0f', deadline)
  entries[#entries + 1] = id
  s.latest = math.max(s.latest or 0, deadline)
  return token, deadline
end

--[[
  Records that a process holds leases without a fact, so that it can be notified when another process ends one of them
  or takes it over: see semaphores.sweep. `member` is its "process/number", with the number of the member in the line
  after a dot. If the process is new, records that are older than any such lease can be are removed.
]]
function semaphores.note_holder(leases, member, micros)
  local is_new = redis.call('ZADD', leases, string.format('%.0f', micros), '&' .. string.match(member, '^[^.]+'))
  if is_new == 1 then
    redis.call('ZREMRANGEBYSCORE', leases, '100000000000000', string.format('%.0f', micros - 80000000))
  end
end

--[[
  Ends a lease of a semaphore: only if it has this token; nil: whatever its token is. The name of a lease without a fact
  begins with '~'; a process that does not hold the lease gives the name without '~'. Returns 1, or 0 if there is no
  such lease, or if its deadline has passed (semaphores.sweep removes it then); and the member that held it, if known.
  semaphores.save removes it, together with all other changes.
]]
function semaphores.end_lease(s, id, token)
  if s.dropped == nil then s.dropped = {} end
  if s.dropped[id] then return 0 end
  local fact = redis.call('HGET', s.facts, id)
  local permits, member, stamp = semaphores.parse_fact(fact)
  if fact then
    if token and token ~= stamp then return 0 end
  elseif string.sub(id, 1, 1) ~= '~' then
    if token then return 0 end
    id = '~' .. id
    if s.dropped[id] then return 0 end
  end
  local deadline = tonumber(redis.call('ZSCORE', s.leases, id) or nil)
  if not deadline or deadline <= s.now then return 0 end
  s.dropped[id] = true
  s.ids_to_drop[#s.ids_to_drop + 1] = id
  s.used = s.used - permits
  s.extra = s.extra - permits + 1
  return 1, member
end

--[[ Tells the process of a member ("process/number") to check whether it still has its leases. The message ends with
'?'. ]]
function semaphores.notify(channel, member) lines.tell(channel, member, ' ?') end

--[[ Tells all processes that may hold leases without a fact to check whether they still have them. `key` is the key of
the leases. ]]
function semaphores.notify_direct_holders(key, channel)
  local told = {}
  local holders = redis.call('ZREVRANGEBYSCORE', key, '4000000000000000', '100000000000000', 'LIMIT', '0', '200')
  for _, name in ipairs(holders) do
    local member = string.match(name, '^[@&]([^.]+)')
    if member and not told[member] then
      told[member] = true
      semaphores.notify(channel, member)
    end
  end
end

--[[
  The capacity (see lines.walk and asks.handle) of an opened semaphore. A grant is a lease, held by `member`, with the
  length and the id in the waiter's details. Changes: 'e' ends a lease by its id and token. 'v' invalidates the calls
  that a sender of direct takes has in flight, and returns the token that its next call must name. 'd' does the same,
  and opens the semaphore for direct takes if nobody waits.
]]
semaphores.LOOK_MS = 5000

function semaphores.capacity(s, member)
  local function id_of(details) return string.match(details, '^%d+ (%S+)$') end
  local function give_back(_, details) semaphores.end_lease(s, id_of(details)) end
  return {
    now = s.now,
    most = s.permits,
    late = -1,
    guesses = true,
    when = function(ahead, cost)
      if cost > s.permits then return -1 end
      if cost <= s.permits - s.used - ahead then return 0 end
      if s.first == nil then s.first = semaphores.first_end(s) or false end
      return s.first and math.max(1, math.min(semaphores.LOOK_MS, s.first - s.now)) or semaphores.LOOK_MS
    end,
    grant = function(cost, details, into)
      local ms, id = string.match(details, '^(%d+) (%S+)$')
      ms = tonumber(ms)
      s.used = s.used + cost
      s.extra = s.extra + cost - 1
      local token, deadline = semaphores.lease(s, id, ms, cost, member)
      if s.first ~= nil then s.first = math.min(s.first or deadline, deadline) end
      into[#into + 1] = token
      into[#into + 1] = deadline
    end,
    holds = function() return s.used > 0 end,
    give_back = give_back,
    rejoin = give_back,
    change = function(letter, id, token)
      if letter == 'e' then return semaphores.end_lease(s, id, token) end
      local stamp = semaphores.next_token(s)
      redis.call('ZADD', s.leases, stamp, id)
      s.directs = s.directs or letter == 'd'
      return tonumber(stamp)
    end,
  }
end

--[[
  Writes the changes of a semaphore, opens it for direct takes again if it may be, and sets the lifetimes of its keys:
  the leases live for two minutes at least, and until the last of them ends; the configuration `idle` ms longer, if it
  has such a lifetime. A semaphore that has one, is not open for direct takes and of which nothing is held, lives for
  `idle` ms. `waits`: true if there are waiters.
]]
function semaphores.save(s, waits)
  local call, format = redis.call, string.format
  if #s.ids_to_drop > 0 then
    call('ZREM', s.leases, unpack(s.ids_to_drop))
    call('HDEL', s.facts, unpack(s.ids_to_drop))
  end
  if #s.facts_to_write > 0 then call('HSET', s.facts, unpack(s.facts_to_write)) end
  local entries = s.entries_to_write
  local is_new = s.last ~= s.stored_last and (#entries > 0 or s.issued)
  local function write(member, score)
    entries[#entries + 1] = format('%.0f', score)
    entries[#entries + 1] = member
  end
  if is_new then write('!last', s.last) end
  if s.extra ~= s.stored_extra then write('!extra', -1 - s.extra) end
  -- Above that a score would not be exact.
  local is_direct = (s.is_direct or s.directs) and not waits and s.permits < 1e14 and s.extra < 1e14
  if is_direct then write('!room', 4e15 + s.permits - s.extra) end
  if #entries > 0 then call('ZADD', s.leases, unpack(entries)) end

  local left
  local is_due = s.has_clock or s.idle or s.latest and s.latest - s.now > 60000
    or not semaphores.is_kept(s.stored_last, s.micros)
  if is_direct or #s.facts_to_write > 0 or (s.latest or is_new) and is_due then
    local ends_at = s.latest and s.micros + (s.latest - s.now + s.padding) * 1000 or 0
    left = semaphores.keep(s.leases, s.facts, s.last, s.micros, ends_at)
  end
  if is_direct then
    -- Senders and holders that were not heard of for longer than a call can be repeated and a lease without a fact can
    -- last.
    call('ZREMRANGEBYSCORE', s.leases, semaphores.ABOVE, s.micros - 80000000)
    call('RENAME', s.leases, s.direct)
  end

  local changed = {}
  for i, field in ipairs({ 'permits', 'idle' }) do
    local value = s[field]
    if value and value ~= tonumber(s.stored[i]) then
      changed[#changed + 1] = field
      changed[#changed + 1] = format('%.0f', value)
    end
  end
  if not s.stored[3] then
    changed[#changed + 1] = 'v'
    changed[#changed + 1] = semaphores.VERSION
  end
  if #changed > 0 then call('HSET', s.config, unpack(changed)) end
  if not s.idle then return end
  if not is_direct and not waits and s.used == 0 then
    call('PEXPIRE', s.leases, s.idle)
    call('PEXPIRE', s.facts, s.idle)
    left = 0
  elseif not left then
    left = math.max(0, call('PTTL', s.leases))
  end
  call('PEXPIRE', s.config, (waits and math.max(left, 60000) or left) + s.idle)
end

--[[ Called after a change of an opened semaphore: notifies the waiters that fit now, and writes the changes. `all`:
notifies every member. ]]
function semaphores.serve(s, keys, channel, all)
  local line = lines.open(keys[4], keys[5], keys[6], channel)
  if line.err then return line end
  if line.units > 0 then
    if all then lines.notify_all(line) end
    lines.walk(line, nil, semaphores.capacity(s, ''), { next = 0 })
    lines.save(line)
  end
  semaphores.save(s, line.units > 0)
  return line
end

--[[
  Carries out a change of a semaphore, once: see timely.run_once. KEYS[1..7] are the semaphore: see semaphores.read;
  ARGV[3] is now, ms ('' for the server's clock), ARGV[4] the permits to set if none are set (-1: none; below that see
  semaphores.read), ARGV[5] the lifetime in ms while nothing is held (-1: as stored), ARGV[6] the beginning of the
  channel names of all processes. `initial`, if given, stands for ARGV[4]; `newest_seen` is the newest token that the
  caller has seen, if it names one. `act(s, channel)` is given the opened semaphore, and returns the reply, true if it
  has changed anything, and true to notify every waiting member. Returns { -2 } without a semaphore.
]]
function semaphores.change(initial, newest_seen, act)
  initial = initial or tonumber(ARGV[4])
  local clock, idle, channel = ARGV[3], tonumber(ARGV[5]), ARGV[6]
  return timely.run_once(function()
    local s = semaphores.open(KEYS, clock, initial, idle, newest_seen)
    if not s then return { -2 } end
    if s.err then return redis.error_reply(s.err) end
    local reply, changed, all = act(s, channel)
    local line = semaphores.serve(s, KEYS, channel, all)
    if line.err then return redis.error_reply(line.err) end
    return reply, changed
  end, idle >= 0 and idle or nil)
end

return semaphores
