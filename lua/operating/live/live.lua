-- The epoch and the number of the newest change; '' and 0 before the first one.
local function live_state(key)
  local found = redis.call('HMGET', key, 'epoch', 'seq')
  return { epoch = found[1] or '', seq = tonumber(found[2] or 0) }
end

-- Removes temporary limits that have ended, at most 100 in one call.
local function live_forget_ended(temporary, ends, now)
  local ended = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 100)
  if #ended == 0 then return end
  redis.call('HDEL', temporary, unpack(ended))
  redis.call('ZREM', ends, unpack(ended))
end

--[[
  Records the names and defaults of a process, for viewers from outside. Names that no process has registered for 30
  days are removed.

  KEYS[1]   state
  KEYS[2]   names
  KEYS[3]   defaults
  ARGV[1]   epoch, if there is none yet
  ARGV[2..] for each name: name, default

  Returns now
]]
function live_register()
  local state, names, defaults = KEYS[1], KEYS[2], KEYS[3]
  local epoch = ARGV[1]

  local now = now_ms('')
  if redis.call('HEXISTS', state, 'epoch') == 0 then redis.call('HSET', state, 'epoch', epoch) end
  for i = 2, #ARGV, 2 do
    local name, default = ARGV[i], ARGV[i + 1]
    redis.call('ZADD', names, now, name)
    redis.call('HSET', defaults, name, default)
  end
  local forgotten = redis.call('ZRANGEBYSCORE', names, '-inf', now - 30 * 86400000, 'LIMIT', 0, 100)
  if #forgotten > 0 then
    redis.call('ZREM', names, unpack(forgotten))
    redis.call('HDEL', defaults, unpack(forgotten))
  end
  return now
end

--[[
  Changes the live limit of a name, or of one of its keys: sets a permanent or a temporary limit, or clears both.

  KEYS[1..2]   state and log: see LiveKeys
  KEYS[3]      log of the name
  KEYS[4..6]   limits, temporary limits and their ends: of all names, or of the keys of this name
  KEYS[7], ARGV[1..2]  see run_once
  ARGV[3]      epoch, if there is none yet
  ARGV[4]      channel
  ARGV[5]      field: the name, or the key
  ARGV[6]      change as the sender writes it; not read here
  ARGV[7]      kind: 'set' or 'clear'
  ARGV[8]      moment at which it ends, ms; -1 for never
  ARGV[9]      ms after which it ends; -1 for never

  Returns now and the change as it stands in the log
]]
function live_set()
  local state, log, log_of_name = KEYS[1], KEYS[2], KEYS[3]
  local limits, temporary, ends = KEYS[4], KEYS[5], KEYS[6]
  local first_epoch = ARGV[3]
  local channel = ARGV[4]
  local field = ARGV[5]
  local text = ARGV[6]
  local kind = ARGV[7]
  local ends_at = tonumber(ARGV[8])
  local lasts = tonumber(ARGV[9])

  return run_once(function()
    local now = now_ms('')
    if lasts >= 0 then ends_at = now + lasts end
    local known = live_state(state)
    if known.epoch == '' then
      known.epoch = first_epoch
      redis.call('HSET', state, 'epoch', first_epoch)
    end
    local seq = redis.call('HINCRBY', state, 'seq', 1)
    local line = string.format('%s %.0f %.0f %.0f %s', known.epoch, seq, now, ends_at, text)

    live_forget_ended(temporary, ends, now)
    redis.call('HDEL', temporary, field)
    redis.call('ZREM', ends, field)
    if kind == 'clear' then
      redis.call('HDEL', limits, field)
    elseif ends_at >= 0 then
      redis.call('HSET', temporary, field, line)
      redis.call('ZADD', ends, ends_at, field)
    else
      redis.call('HSET', limits, field, line)
    end

    redis.call('LPUSH', log, line)
    redis.call('LTRIM', log, 0, 999)
    redis.call('LPUSH', log_of_name, line)
    redis.call('LTRIM', log_of_name, 0, 99)
    redis.call('PUBLISH', channel, line)
    return { now, line }, true
  end)
end

--[[
  Lists the changes since the one that a process knows as the newest.

  KEYS[1..2]  state and log: see LiveKeys
  ARGV[1]     epoch that the process knows; '' if it has seen Redis before the first change
  ARGV[2]     number of the newest change that it knows

  Returns now, epoch, number of the newest change, 1 if all changes since follow and 0 if the process has to load
  everything anew; then the changes, oldest first
]]
function live_since()
  local state, log = KEYS[1], KEYS[2]
  local epoch = ARGV[1]
  local seq = tonumber(ARGV[2])

  local now = live_state(state)
  local missed = now.seq - seq
  local reply = { now_ms(''), now.epoch, now.seq, 0 }
  if (epoch ~= now.epoch and epoch ~= '') or missed < 0 then return reply end
  if missed == 0 then
    reply[4] = 1
    return reply
  end
  if missed > redis.call('LLEN', log) then return reply end
  reply[4] = 1
  local newest_first = redis.call('LRANGE', log, 0, missed - 1)
  for i = missed, 1, -1 do reply[#reply + 1] = newest_first[i] end
  return reply
end

--[[
  Reads the live limits of some names.

  KEYS[1..3]  state, limits and temporary limits of names: see LiveKeys
  KEYS[4..]   for each name: limits and temporary limits of its keys
  ARGV        the names

  Returns now, epoch, number of the newest change; then for each name: its limit or '', its temporary limit or '', how
  many of its keys have limits of their own
]]
function live_load()
  local state, limits, temporary = KEYS[1], KEYS[2], KEYS[3]

  local known = live_state(state)
  local reply = { now_ms(''), known.epoch, known.seq }
  local standing = redis.call('HMGET', limits, unpack(ARGV))
  local passing = redis.call('HMGET', temporary, unpack(ARGV))
  for i = 1, #ARGV do
    reply[#reply + 1] = standing[i] or ''
    reply[#reply + 1] = passing[i] or ''
    reply[#reply + 1] = redis.call('HLEN', KEYS[2 * i + 2]) + redis.call('HLEN', KEYS[2 * i + 3])
  end
  return reply
end

--[[
  Reads the limits that some keys have of their own, under one name or several.

  KEYS[1]     state: see LiveKeys
  KEYS[2..]   for each name: limits, temporary limits and their ends, of the keys of this name
  ARGV        the keys: as many for each name, those of the first name first

  Returns now, epoch, number of the newest change; then for each key: its limit or '', its temporary limit or ''
]]
function live_keys()
  local width = 3 * #ARGV / (#KEYS - 1)

  local known = live_state(KEYS[1])
  local now = now_ms('')
  local reply = { now, known.epoch, known.seq }
  for i = 2, #KEYS, 3 do
    local limits, temporary, ends = KEYS[i], KEYS[i + 1], KEYS[i + 2]
    local first = (i - 2) / 3 * width + 1
    live_forget_ended(temporary, ends, now)
    local standing = redis.call('HMGET', limits, unpack(ARGV, first, first + width - 1))
    local passing = redis.call('HMGET', temporary, unpack(ARGV, first, first + width - 1))
    for j = 1, width do
      reply[#reply + 1] = standing[j] or ''
      reply[#reply + 1] = passing[j] or ''
    end
  end
  return reply
end

--[[
  Lists all live names with their limits.

  KEYS[1..5]  state, names, defaults, limits and temporary limits of names: see LiveKeys
  ARGV        none

  Returns now, epoch, number of the newest change; then for each name, in the order of the alphabet: name, default, its
  limit or '', its temporary limit or ''
]]
function live_names()
  local state, names, defaults, limits, temporary = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

  local known = live_state(state)
  local reply = { now_ms(''), known.epoch, known.seq }
  local all = redis.call('ZRANGE', names, 0, -1)
  table.sort(all)
  for _, name in ipairs(all) do
    reply[#reply + 1] = name
    reply[#reply + 1] = redis.call('HGET', defaults, name) or ''
    reply[#reply + 1] = redis.call('HGET', limits, name) or ''
    reply[#reply + 1] = redis.call('HGET', temporary, name) or ''
  end
  return reply
end

--[[
  Lists the newest changes of live limits.

  KEYS[1]  log of all, or of one name: see LiveKeys
  ARGV[1]  how many at most

  Returns the changes, newest first
]]
function live_history()
  local log = KEYS[1]
  local count = tonumber(ARGV[1])
  return redis.call('LRANGE', log, 0, count - 1)
end
