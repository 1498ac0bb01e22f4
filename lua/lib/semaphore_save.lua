--[[
  Writes the changes of a semaphore, opens it for direct takes again if it may be, and sets the lifetimes of its keys: the leases live for two minutes at least, and until the last of
  them ends; the configuration `idle` ms longer, if it has such a lifetime. A semaphore that has one, is not open for direct takes and of which nothing is held, lives for `idle` ms.
  `waits`: true if there are waiters.
]]
-- @include semaphore_sweep
local function semaphore_save(s, waits)
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
  local is_due = s.has_clock or s.idle or s.latest and s.latest - s.now > 60000 or not semaphore_is_kept(s.stored_last, s.micros)
  if is_direct or #s.facts_to_write > 0 or (s.latest or is_new) and is_due then
    local ends_at = s.latest and s.micros + (s.latest - s.now + s.padding) * 1000 or 0
    left = semaphore_keep(s.leases, s.facts, s.last, s.micros, ends_at)
  end
  if is_direct then
    -- Senders and holders that were not heard of for longer than a call can be repeated and a lease without a fact can last.
    call('ZREMRANGEBYSCORE', s.leases, SEMAPHORE_ABOVE, s.micros - 80000000)
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
    changed[#changed + 1] = SEMAPHORE_VERSION
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
