-- Semaphores.
local lines = require 'waiting.line.lines'
local members = require 'waiting.line.members'
local timely = require 'redis.timely'
local semaphores = {}

--[[
  The leases of a semaphore are one ZSET. It is called `open` while nobody waits: a take (semaphore_take) and the usual
  release, a plain ZREM, then need no look at the line. While somebody waits it is called `held`: a take and a ZREM find
  nothing there, and their sender asks the line. Members and scores:

    "permits.since.process/number.random"   a lease, with its deadline in ms. The client names it before it asks: how
             many permits it holds, since when (ms since the epoch to base 36, by the client's clock), and who holds it
    the same, below 0   the lease has ended, but a copy of its take may still come: it finds the name, takes nothing.
             The score is the moment in ms from which no copy can come, with a minus sign
    !last  the newest token, in µs
    !room  4e15 (more than any token), and the number of permits without those beyond one for each lease: as many leases
           may be in the table
    !extra   4e15, and the permits beyond one for each lease; absent if there are none
    !mended  the newest token at the last repair of the leases: see semaphores.repair_clock

  Held are the leases whose deadline has not passed, by their scores, and !extra. So ended leases count for nothing
  before they are removed, but for permits beyond one: whoever removes a lease also corrects !extra and !room, in the
  same script.
]]
semaphores.VERSION = '5'
-- Above all deadlines, and below all other scores.
semaphores.ABOVE = '100000000000000'
-- The greatest number of permits that a score can hold exactly.
semaphores.MOST = 1e15
-- The names of ended leases of which a copy may come stay so long, ms: a take is carried out within five seconds or
-- not at all.
semaphores.STAYS_MS = 60000
-- The first script of each span of 16.8 s sets the lifetime of the table for all leases of up to so many ms that the
-- others take: see semaphores.keep.
semaphores.SHORT_MS = 30000
semaphores.SPAN_MS = 16778

function semaphores.permits_in(name) return tonumber(string.match(name, '^(%d+)%.') or 1) end

--[[ Returns up to `most` names that the table no longer needs, and the permits beyond one, at most `extra`, of the
ended leases among them. ]]
function semaphores.over(leases, now, most, extra)
  local over = redis.call('ZRANGEBYSCORE', leases, -now, now, 'WITHSCORES', 'LIMIT', '0', most)
  local names, freed = {}, 0
  for i = 1, #over, 2 do
    names[#names + 1] = over[i]
    if string.sub(over[i + 1], 1, 1) ~= '-' then freed = freed + semaphores.permits_in(over[i]) - 1 end
  end
  return names, math.min(freed, extra)
end

--[[
  Removes up to `most` names whose deadline has passed, and corrects !extra and !room, which were `extra` permits beyond
  one and `room`. Returns both.
]]
function semaphores.sweep(leases, now, most, extra, room)
  local names, freed = semaphores.over(leases, now, most, extra)
  if #names > 0 then redis.call('ZREM', leases, unpack(names)) end
  if freed > 0 then
    extra, room = extra - freed, room + freed
    redis.call('ZADD', leases, string.format('%.0f', 4e15 + extra), '!extra', string.format('%.0f', room), '!room')
  end
  return extra, room
end

--[[
  The lifetime of the table: until its last lease ends, and `idle` ms longer, at least two minutes without an `idle`
  (below 0). A lease lasts `ms`, `last` is the newest token: tokens never start again below it, even if the clock was
  set back.
  While the newest token is of the same span as the present (is_kept), this need not be called again for short leases.
]]
function semaphores.is_kept(last, micros)
  return last and math.floor(last / 16777216) == math.floor(micros / 16777216)
end

function semaphores.keep(leases, ms, idle, last, micros)
  local behind = math.max(0, last - micros) / 1000
  local rest = idle < 0 and 120000 - semaphores.SHORT_MS - semaphores.SPAN_MS or idle
  local needed = math.ceil(math.max(ms, semaphores.SHORT_MS) + semaphores.SPAN_MS + rest + behind)
  if redis.call('PTTL', leases) < needed then redis.call('PEXPIRE', leases, needed) end
end

--[[
  Reads the argument of a script that says how many permits a semaphore has: '5' if none are stored, '=5' whatever is
  stored, '' if only those that are stored count. Returns { permits, is_fixed }; permits is nil for ''.
]]
function semaphores.given(text)
  return { permits = tonumber((string.gsub(text, '^=', ''))), is_fixed = string.sub(text, 1, 1) == '=' }
end

--[[
  The number of permits of a semaphore: those that are `given` and fixed; else those that are stored in `config`, or
  that its table tells (`told`, or nil), or those that are given; nil if there are none. Also returns what is stored,
  and an error for another version. A semaphore with a lifetime has no `config`; that of others lives until they are
  deleted.
]]
function semaphores.permits(config, given, told)
  -- The table was written with what is stored.
  if told and told < semaphores.MOST and (not given.is_fixed or told == given.permits) then return told, told end
  local fields = redis.call('HMGET', config, 'permits', 'v')
  if fields[1] and fields[2] ~= semaphores.VERSION then
    return nil, nil, 'ERR the semaphore has version ' .. (fields[2] or '1')
      .. ', this process expects version ' .. semaphores.VERSION
      .. ': let all processes that share it run one version of spillway'
  end
  local stored = tonumber(fields[1] or nil)
  if given.is_fixed then return given.permits, stored end
  return stored or told or given.permits, stored
end

function semaphores.write_permits(config, permits)
  redis.call('HSET', config, 'permits', string.format('%.0f', permits), 'v', semaphores.VERSION)
end

--[[
  Reads a semaphore, and changes nothing. `keys` are, in this order:

    config   HASH v (version of this state), permits
    open, held   the two names of the table of the leases: see above
    line, asks, meta   the waiting line: see lines.open. A waiter's details are "length in ms, space, name" of its lease

  `clock`: now, ms; '' for the server's clock. `given`: see semaphores.given; `idle`: see keep. `newest_seen`: the
  newest token that the caller has seen. Returns nil if no permits are set, and { err } for another version. Fields of
  the result: `permits`; `is_new`, true if nobody has set permits before; `is_set` and `is_changed`, which the caller
  sets when it sets them.
]]
function semaphores.read(keys, clock, given, idle, newest_seen)
  local time = redis.call('TIME')
  local micros = time[1] * 1000000 + time[2]
  local s = {
    config = keys[1],
    open = keys[2],
    held = keys[3],
    idle = idle,
    -- An object that was given no number of permits only knows those that others set.
    is_set = given.permits ~= nil,
    micros = micros,
    now = clock == '' and math.floor(micros / 1000) or tonumber(clock),
    is_clock_given = clock ~= '',
    entries = {},
    ended = {},
    is_ended = {},
  }
  -- Whoever asks usually waits, or others do.
  s.leases = s.held
  local state = redis.call('ZMSCORE', s.held, '!last', '!room', '!extra', '!mended')
  if not state[1] then
    s.leases = s.open
    state = redis.call('ZMSCORE', s.open, '!last', '!room', '!extra', '!mended')
  end
  s.stored_last = tonumber(state[1] or nil)
  s.last = math.max(s.stored_last or 0, newest_seen or 0)
  s.stored_room = tonumber(state[2] or nil)
  s.stored_extra = tonumber(state[3] or 4e15) - 4e15
  s.mended = tonumber(state[4] or 0)
  local told = s.stored_room and s.stored_room - 4e15 + s.stored_extra
  local failure
  s.permits, s.stored_permits, failure = semaphores.permits(s.config, given, told)
  if failure then return { err = failure } end
  if not s.permits then return nil end
  s.is_new = not s.stored_permits and not told
  return s
end

--[[
  Reads a semaphore (see semaphores.read), removes some of the leases that have ended, and counts the others: `used` is
  the number of held permits; `extra`, how many of them are beyond one for each lease. What is changed is written by
  semaphores.save.
]]
semaphores.SWEEP = 100

function semaphores.open(keys, clock, given, idle, newest_seen)
  local s = semaphores.read(keys, clock, given, idle, newest_seen)
  if not s or s.err then return s end
  semaphores.repair_clock(s)
  s.stored_extra, s.stored_room = semaphores.sweep(s.leases, s.now, semaphores.SWEEP, s.stored_extra, s.stored_room)
  s.extra = s.stored_extra
  s.used = redis.call('ZCOUNT', s.leases, s.now + 1, semaphores.ABOVE) + s.extra
  return s
end

--[[
  By how many ms the deadlines of leases are too late, because the server's clock was set back: 0 if it was not, or if
  they are repaired. The newest token, which is in µs and never falls, shows that it was. If the step is shorter than a
  lease, leases from before and after the step cannot be told apart, and the answer is 0. Second: the deadlines after
  this moment are too late.
]]
function semaphores.behind(s)
  if s.is_clock_given or s.last - s.micros < 1000000 or not s.stored_last then return 0 end
  -- While the clock is behind the newest token, each token is one more than the last: then all leases are repaired
  -- already, or newer than the step.
  if s.last - s.mended < 1000000 then return 0 end
  local written = math.floor(s.last / 1000)
  local behind = written - s.now
  local range = { s.leases, semaphores.ABOVE, written, 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES' }
  local last = redis.call('ZRANGE', unpack(range))[2]
  if last and last - written > behind then return 0 end
  return behind, written
end

-- Moves each deadline after a step of the clock (see semaphores.behind) so that the lease lasts as long as it had left
-- when a lease was last written.
semaphores.BATCH = 1000

function semaphores.repair_clock(s)
  local behind, written = semaphores.behind(s)
  if behind == 0 then return end
  local leases = redis.call('ZRANGEBYSCORE', s.leases, written + 1, semaphores.ABOVE, 'WITHSCORES')
  for from = 1, #leases, semaphores.BATCH do
    local entries = {}
    for i = from, math.min(#leases, from + semaphores.BATCH - 1), 2 do
      entries[#entries + 1] = string.format('%.0f', leases[i + 1] - behind)
      entries[#entries + 1] = leases[i]
    end
    redis.call('ZADD', s.leases, unpack(entries))
  end
  redis.call('ZADD', s.leases, string.format('%.0f', s.last), '!mended')
end

--[[ Returns when the first lease ends, in ms; nil without leases. If ended leases of several permits may remain, their
permits are free a moment later. ]]
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
  return s.last
end

--[[ Starts a lease now. Returns its token and its deadline. semaphores.save writes it, together with all other changes.
]]
function semaphores.lease(s, name, ms)
  local token, deadline = semaphores.next_token(s), s.now + ms
  local permits = semaphores.permits_in(name)
  s.used = s.used + permits
  s.extra = s.extra + permits - 1
  s.longest = math.max(s.longest or 0, ms)
  s.entries[#s.entries + 1] = string.format('%.0f', deadline)
  s.entries[#s.entries + 1] = name
  return token, deadline
end

--[[
  Ends a lease. Returns 1, or 0 if there is none of this name, or if its deadline has passed; and true in that last
  case: then semaphores.sweep removes it. semaphores.save removes the lease, together with all other changes.

  semaphores.leave_name leaves the name of a lease that is not in the table any more: a copy of its take may still come.
]]
function semaphores.end_lease(s, name)
  local deadline = tonumber(redis.call('ZSCORE', s.leases, name) or nil)
  if not deadline or s.is_ended[name] then return 0, false end
  if deadline <= s.now then return 0, deadline > 0 end
  local permits = semaphores.permits_in(name)
  s.used = s.used - permits
  s.extra = s.extra - permits + 1
  s.ended[#s.ended + 1] = name
  s.is_ended[name] = true
  return 1, false
end

function semaphores.leave_name(s, name)
  s.entries[#s.entries + 1] = string.format('%.0f', -s.now - semaphores.STAYS_MS)
  s.entries[#s.entries + 1] = name
  s.longest = math.max(s.longest or 0, semaphores.STAYS_MS)
end

--[[ Who holds a lease, "process/number"; nil for a text that names none. ]]
function semaphores.holder_in(name) return string.match(name, '^%d+%.[^.]*%.([^.]+/[^.]+)%.') end

--[[ Tells the holder of a lease to check whether it still has its leases. The message ends with '?'. ]]
function semaphores.tell_holder(channel, name)
  local holder = semaphores.holder_in(name)
  if holder then members.tell(channel, holder, ' ?') end
end

--[[
  The capacity (see lines.walk and asks.handle) of an opened semaphore. A grant is a lease, with the length and the name
  in the waiter's details. The change 'e' ends a lease, by its name; with a second word, it leaves the name.
]]
semaphores.LOOK_MS = 5000

function semaphores.capacity(s)
  local function give_back(_, details) semaphores.end_lease(s, string.match(details, '^%d+ (%S+)$')) end
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
    grant = function(_, details, into)
      local ms, name = string.match(details, '^(%d+) (%S+)$')
      local token, deadline = semaphores.lease(s, name, tonumber(ms))
      if s.first ~= nil then s.first = math.min(s.first or deadline, deadline) end
      into[#into + 1] = token
      into[#into + 1] = deadline
    end,
    give_back = give_back,
    rejoin = give_back,
    change = function(_, name, stays)
      local ended, is_over = semaphores.end_lease(s, name)
      if stays ~= '' and not is_over then semaphores.leave_name(s, name) end
      return ended
    end,
  }
end

--[[ Writes the changes of a semaphore, and gives the table of its leases the name and the lifetime that it needs.
`waits`: true if there are waiters. ]]
function semaphores.save(s, waits)
  local call = redis.call
  if s.idle < 0 and s.is_set and s.permits ~= s.stored_permits then semaphores.write_permits(s.config, s.permits) end
  local entries, leases = s.entries, s.leases
  if #s.ended > 0 then call('ZREM', leases, unpack(s.ended)) end
  local function write(member, score)
    entries[#entries + 1] = string.format('%.0f', score)
    entries[#entries + 1] = member
  end
  local room = 4e15 + math.min(s.permits, semaphores.MOST) - s.extra
  if not s.stored_last then
    if #entries == 0 and not waits and not s.is_changed then return end
    if s.last < s.micros then semaphores.next_token(s) end
  end
  if room ~= s.stored_room then write('!room', room) end
  if s.extra ~= s.stored_extra then write('!extra', 4e15 + s.extra) end
  if s.last ~= s.stored_last then write('!last', s.last) end
  if #entries > 0 then call('ZADD', leases, unpack(entries)) end
  if s.is_clock_given or (s.longest or 0) > semaphores.SHORT_MS or not semaphores.is_kept(s.stored_last, s.micros) then
    semaphores.keep(leases, s.longest or 0, s.idle, s.last, s.micros)
  end
  local right = waits and s.held or s.open
  if leases ~= right then call('RENAME', leases, right) end
end

--[[ Called after a change of an opened semaphore: notifies the waiters that fit now, and writes the changes. `all`:
notifies every member. ]]
function semaphores.serve(s, keys, channel, all)
  local line = lines.open(keys[4], keys[5], keys[6], channel)
  if line.err then return line end
  if line.units > 0 then
    if all then lines.notify_all(line) end
    lines.walk(line, nil, semaphores.capacity(s), { next = 0 })
    lines.save(line)
  end
  semaphores.save(s, line.units > 0)
  return line
end

--[[
  Carries out a change of a semaphore, once: see timely.run_once. KEYS[1..6] are the semaphore: see semaphores.open;
  ARGV[3] is now, ms ('' for the server's clock), ARGV[4] the permits (see semaphores.given), ARGV[5] the lifetime in ms
  while nothing is held (-1: for ever), ARGV[6] the beginning of the channel names of all processes. `permits`, if
  given, stand for ARGV[4]; `newest_seen` is the newest token that the caller has seen, if it names one. `act(s,
  channel)` is given the opened semaphore, and returns the reply, true if it has changed anything, and true to notify
  every waiting member. Returns { -2 } without a semaphore.
]]
function semaphores.change(permits, newest_seen, act)
  local given = semaphores.given(permits or ARGV[4])
  local clock, idle, channel = ARGV[3], tonumber(ARGV[5]), ARGV[6]
  return timely.run_once(function()
    local s = semaphores.open(KEYS, clock, given, idle, newest_seen)
    if not s then return { -2 } end
    if s.err then return redis.error_reply(s.err) end
    local reply, changed, all = act(s, channel)
    local line = semaphores.serve(s, KEYS, channel, all)
    if line.err then return redis.error_reply(line.err) end
    return reply, changed
  end)
end

return semaphores
