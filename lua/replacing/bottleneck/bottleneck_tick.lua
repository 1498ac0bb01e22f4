--[[
  What happens to a limiter of Bottleneck in one turn of a process: places that come back, jobs that wait, new jobs, and
  one errand, in this order. All of the process's numbers are absolute, so that a state that was lost or given up is
  right again with its next call. A call that arrives again, or after later ones, changes nothing. Its arithmetic is
  that of src/replacing/bottleneck/local-store.ts; beyond it, clients with waiting jobs take turns: each launch sends
  its client to the end of the line, and what the first ones in line need is kept for them, for a second after they were
  called.

  KEYS[1]   the state: HASH of settings and counters
  KEYS[2]   clients that have places or waiting jobs, or had them: ZSET client → the end of its lease, ms
  KEYS[3]   the line: ZSET of clients with waiting jobs → their turn
  KEYS[4]   HASH of client → { number of its last call, weight that it runs, length of its queue, weight of the first
            job there, until when it was called, its last answer }; '!running', '!queued': the sums of them
  KEYS[5]   the channel of the limiter
  ARGV[1]   the client
  ARGV[2]   number of the call
  ARGV[3]   length of a lease, ms
  ARGV[4]   how long the state lives without a call, ms; -1: for ever
  ARGV[5]   weight of all jobs that it runs, before this call launches any
  ARGV[6]   the ms until the last of them expires; -1: never
  ARGV[7]   weight of the jobs that have ended since the last call
  ARGV[8]   length of its queue, before this call launches any
  ARGV[9]   the first jobs there: 'weight priority expiration ' of each; expiration in ms, -1: never
  ARGV[10]  new jobs: the same
  ARGV[11]  the errand: running, done, queued, reservoir, check, add, set, leave (the client stops waiting), '': none
  ARGV[12]  check: a weight; add: what the reservoir gains; set: 'name value ' of each setting, '-' for none
  ARGV[13]  how often the limiter blocked, as far as the client knows; -1: unknown
  ARGV[14]  'name value ' of each setting, for a limiter without a state; '': it is expected to have one
  ARGV[15]  now, ms; '' for the server's clock

  Returns   nothing if there is no state; else { ms until the launch of each waiting job that is launched, the verdict
            of each new job that was decided, weight that runs, reservoir, maxConcurrent, strategy, ms until the client
            should ask again, ms until its lease ends, how often the limiter blocked (more than the client knows: its
            queue is to be dropped, before the new jobs), result of the errand }. Verdicts: ms until the launch; -1: it
            waits; -2: the queue is full; -3: refused, and the queue is to be dropped; -4: too heavy. '-': null, and no
            result.
]]
local timely = require 'redis.timely'

local state, clients, line, facts, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local me, number, lease, life = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local held, longest, ended, waiting = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local heads, received, verb, value = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local blocks, settings = tonumber(ARGV[13]), ARGV[14]
local call = redis.call
local now = timely.now_ms(ARGV[15])

local s, names = {}, {
  'maxConcurrent', 'minTime', 'highWater', 'strategy', 'penalty', 'reservoir', 'reservoirRefreshInterval',
  'reservoirRefreshAmount', 'reservoirIncreaseInterval', 'reservoirIncreaseAmount', 'reservoirIncreaseMaximum',
  'nextAt', 'blockedUntil', 'blocks', 'refreshedAt', 'increasedAt', 'done', 'turn',
}
local stored = call('HMGET', state, unpack(names))
if not stored[12] then
  if settings == '' then return {} end
  for name, given in string.gmatch(settings, '(%S+) (%S+) ') do s[name] = tonumber(given) end
  s.nextAt, s.blockedUntil, s.blocks, s.refreshedAt, s.increasedAt, s.done, s.turn = now, 0, 0, now, now, 0, 0
else
  for i, name in ipairs(names) do s[name] = tonumber(stored[i] or nil) end
end

local function fact_of(client)
  local packed = call('HGET', facts, client)
  return packed and cmsgpack.unpack(packed)
end
local function note(client, fact)
  call('HSET', facts, client, cmsgpack.pack(fact))
end

local before = fact_of(me)
if before and number <= before[1] then return before[6] end

local sums = call('HMGET', facts, '!running', '!queued')
local running, queued = tonumber(sums[1] or 0), tonumber(sums[2] or 0)
-- Clients that did not renew their lease are dead, or give up their places.
for _, client in ipairs(call('ZRANGEBYSCORE', clients, '-inf', now, 'LIMIT', '0', '100')) do
  if client ~= me then
    local fact = fact_of(client)
    if fact then
      running, queued, s.done = running - fact[2], queued - fact[3], s.done + fact[2]
      call('HDEL', facts, client)
    end
    call('ZREM', clients, client)
    call('ZREM', line, client)
  end
end
if before then running, queued = running - before[2], queued - before[3] end
running, s.done = running + held, s.done + ended

-- Refreshes and increases that were due, counted from the beginning.
local refill_at
if s.reservoirRefreshAmount and (s.reservoirRefreshInterval or 0) > 0 then
  local times = math.floor((now - s.refreshedAt) / s.reservoirRefreshInterval)
  if times > 0 then
    s.refreshedAt = s.refreshedAt + times * s.reservoirRefreshInterval
    s.reservoir = s.reservoirRefreshAmount
  end
  refill_at = s.refreshedAt + s.reservoirRefreshInterval
end
if s.reservoirIncreaseAmount and (s.reservoirIncreaseInterval or 0) > 0 then
  local times = math.floor((now - s.increasedAt) / s.reservoirIncreaseInterval)
  if times > 0 then
    s.increasedAt = s.increasedAt + times * s.reservoirIncreaseInterval
    local more, reservoir = s.reservoirIncreaseAmount * times, s.reservoir or 0
    if s.reservoirIncreaseMaximum then more = math.min(more, s.reservoirIncreaseMaximum - reservoir) end
    s.reservoir = reservoir + math.max(0, more)
  end
  local increase_at = s.increasedAt + s.reservoirIncreaseInterval
  refill_at = math.min(refill_at or increase_at, increase_at)
end

-- What is reserved for others in line.
local reserved = 0
local function fits(weight)
  if s.maxConcurrent and weight > s.maxConcurrent - running - reserved then return false end
  return not s.reservoir or weight <= s.reservoir - reserved
end

local again, called = 5000, 0
local ahead, behind, stands = {}, {}, false
for _, client in ipairs(call('ZRANGE', line, '0', '99')) do
  if client == me then stands = true else table.insert(stands and behind or ahead, client) end
end
-- Reserves what those before us in line need, and calls them. False if the first one needs more than there is: then
-- nobody behind it is served.
local function serve_ahead()
  while #ahead > 0 do
    local client = ahead[1]
    local fact = fact_of(client)
    if not fact or fact[3] == 0 or (fact[5] > 0 and fact[5] <= now) then
      -- It has not come. It joins the line again with its next call.
      call('ZREM', line, client)
    elseif not s.maxConcurrent or fact[4] <= s.maxConcurrent then
      if not fits(fact[4]) then return false end
      reserved = reserved + fact[4]
      if fact[5] == 0 then
        fact[5] = now + 1000
        note(client, fact)
        call('PUBLISH', channel, 'ask:' .. client .. ' ' .. called)
        called = called + 1
      end
      again = math.min(again, fact[5] - now)
    end
    table.remove(ahead, 1)
  end
  return true
end

-- The limiter has blocked since these jobs came.
if blocks >= 0 and blocks < s.blocks then heads, waiting = '', 0 end
local left = waiting
-- Gives a place to a job of ours: the ms until its launch; nothing if it has to wait.
local function launch(weight, expiration)
  -- What weighs nothing takes nothing from others.
  if weight > 0 and not serve_ahead() then return end
  if not fits(weight) then return end
  running, held = running + weight, held + weight
  if s.reservoir then s.reservoir = s.reservoir - weight end
  local wait = math.max(0, s.nextAt - now)
  s.nextAt = now + wait + s.minTime
  if expiration < 0 then longest = -1 elseif longest >= 0 then longest = math.max(longest, wait + expiration) end
  if weight > 0 then ahead, behind, stands = behind, {}, false end
  return math.ceil(wait)
end

-- The first job that has to wait: only one of a better priority may be launched before it.
local blocking, head = math.huge, 0
local waits, verdicts = {}, {}
for weight, priority, expiration in string.gmatch(heads, '(%S+) (%S+) (%S+) ') do
  if blocking == math.huge then
    local wait = launch(tonumber(weight), tonumber(expiration))
    if wait then
      waits[#waits + 1] = wait
    else
      blocking, head = tonumber(priority), tonumber(weight)
    end
  end
end
left = left - #waits
local whole = true
if blocking == math.huge and left > 0 then
  -- The next heads are not known: the client asks again with them.
  whole, received, blocking = false, '', -1
end
for given_weight, given_priority, given_expiration in string.gmatch(received, '(%S+) (%S+) (%S+) ') do
  local weight, priority, expiration = tonumber(given_weight), tonumber(given_priority), tonumber(given_expiration)
  local full = left == s.highWater and not (fits(weight) and s.nextAt <= now)
  local verdict = -1
  if s.maxConcurrent and weight > s.maxConcurrent then
    verdict = -4
  elseif s.strategy == 3 and (full or s.blockedUntil >= now) then
    s.blockedUntil = now + (s.penalty or (s.minTime > 0 and 15 * s.minTime or 5000))
    s.nextAt = s.blockedUntil + s.minTime
    if queued > 0 then call('PUBLISH', channel, 'blocked:' .. me) end
    s.blocks = s.blocks + 1
    left, blocking, verdict = 0, math.huge, -3
  elseif full then
    verdict, whole = -2, false
  else
    local wait = priority < blocking and launch(weight, expiration)
    if wait then
      verdict = wait
    else
      left = left + 1
      if priority < blocking then blocking, head = priority, weight end
    end
  end
  verdicts[#verdicts + 1] = verdict
  if verdict == -2 then break end
end

local result = '-'
local reservoir = s.reservoir
if whole and verb ~= '' then
  if verb == 'running' then result = running
  elseif verb == 'done' then result = s.done
  elseif verb == 'queued' then result = queued + left
  elseif verb == 'check' then result = fits(tonumber(value)) and s.nextAt <= now and 1 or 0
  elseif verb == 'leave' then left, result = 0, 1
  else
    if verb == 'add' then s.reservoir = (s.reservoir or 0) + tonumber(value) end
    if verb == 'set' then
      local refresh, increase = s.reservoirRefreshInterval, s.reservoirIncreaseInterval
      for name, given in string.gmatch(value, '(%S+) (%S+) ') do s[name] = tonumber(given) end
      -- A new interval begins now.
      if s.reservoirRefreshInterval ~= refresh then s.refreshedAt = now end
      if s.reservoirIncreaseInterval ~= increase then s.increasedAt = now end
    end
    result = s.reservoir or 'none'
  end
end

-- Whoever is served now is called: those before us, and those behind us unless we have to wait.
if serve_ahead() and left == 0 then
  ahead, behind = behind, {}
  serve_ahead()
end

local lease_ms = lease
if held > 0 and left == 0 and longest >= 0 then lease_ms = math.min(lease, longest + 1000) end
call('ZADD', clients, now + lease_ms, me)
if left > 0 then
  if not stands then
    s.turn = s.turn + 1
    call('ZADD', line, s.turn, me)
  end
  local first = call('ZRANGE', clients, '0', '0', 'WITHSCORES')
  again = math.max(1, math.min(again, first[2] - now + 1, refill_at and refill_at - now or again))
else
  call('ZREM', line, me)
end
local function text(given)
  return given and string.format('%.17g', given) or '-'
end
local told = type(result) == 'number' and text(result) or result
local limit = text(s.maxConcurrent)
local answer = {
  waits, verdicts, text(running), text(reservoir), limit, s.strategy, math.ceil(again), lease_ms, s.blocks, told,
}
note(me, { number, held, left, head, 0, answer })
call('HSET', facts, '!running', text(running), '!queued', text(queued + left))
local fields = {}
for _, name in ipairs(names) do
  fields[#fields + 1] = name
  fields[#fields + 1] = text(s[name])
end
call('HSET', state, unpack(fields))
local keep = 2 * lease + 60000
if life >= 0 then
  local idle = held == 0 and left == 0
  keep = math.max(0, s.nextAt - now) + math.max(life, idle and 1 or 2 * lease)
  call('PEXPIRE', state, string.format('%.0f', keep))
end
for i = 2, 4 do call('PEXPIRE', KEYS[i], string.format('%.0f', keep)) end
return answer
